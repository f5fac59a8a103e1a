"""How far a table is, and how far its followers are: views, sinks, and tables that read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from keyfold.engine.log.readers import read_upto, recorded
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.plan.validate.sinks import HISTORY
from keyfold.views.contract import Position
from keyfold.views.types.epoch import from_micros


@dataclass(frozen=True)
class Follower:
    """What follows a table's log, and the newest batch that it has read."""

    kind: Literal["sink", "view", "table"]
    name: str
    batch: int

    def __str__(self) -> str:
        return "the view" if self.kind == "view" else f"{self.kind} {self.name}"

    def document(self) -> dict[str, Any]:
        """The fields by name."""
        return {"kind": self.kind, "name": self.name, "batch": self.batch}


@dataclass(frozen=True)
class Progress:
    """How far a table is: its last batch and watermark, and its followers."""

    batch: int | None
    watermark: datetime | None
    followers: tuple[Follower, ...]

    def document(self) -> dict[str, Any]:
        """The fields by name."""
        followers = [follower.document() for follower in self.followers]
        return {"batch": self.batch, "watermark": self.watermark, "followers": followers}


def progress(home: AppHome, table: str) -> Progress:
    """How far a table and its followers are."""
    return Progress(*read_position(home, table), (*followers(home, table), *readers(home, table)))


def read_position(home: AppHome, table: str) -> tuple[int | None, datetime | None]:
    """The last committed batch of a table and its watermark, from its view or from Spark's commit log."""
    table_home, position = home.table(table), view_position(home, table)
    committed = table_home.committed_batch()
    if position and (committed is None or position.batch >= committed):
        return position.batch, position.watermark
    ms = None if committed is None else table_home.spark.watermark_ms(committed)
    watermark = None if ms is None else from_micros(ms * 1000, zoned=True)
    return committed, watermark if isinstance(watermark, datetime) else None


def followers(home: AppHome, table: str) -> Iterator[Follower]:
    """The sinks and the view of a table."""
    for name, at in sinks(home, table):
        yield Follower("sink", name, at)
    if (position := view_position(home, table)) is not None:
        yield Follower("view", table, position.batch)


def readers(home: AppHome, table: str) -> Iterator[Follower]:
    """The tables that read a table."""
    for reader in contents.readers(home, table):
        for use in recorded(reader, home.table(reader), [table]):
            yield Follower("table", reader, read_upto(home, use))


def view_position(home: AppHome, table: str) -> Position | None:
    """How far a view is; None if there is none."""
    views = home.views
    if not views.exists():
        return None
    with views.open(read_only=True) as store:
        return store.position(table)


def sinks(home: AppHome, table: str) -> Iterator[tuple[str, int]]:
    """The sinks that the last start declared, and the newest batch that each has written.

    All that have a position, if it did not declare the table.
    """
    table_home, declared = home.table(table), home.read_plan().declared_tables.get(table)
    known = None if declared is None else _names_of_sinks(declared)
    for name in (file.removesuffix(".json") for file in table_home.storage.list("sinks")):
        if (at := sink_position(table_home, name)) is not None and (known is None or name in known):
            yield name, at


def _names_of_sinks(declared: Mapping[str, Any]) -> set[str]:
    names = {name.lower() for name, _ in by_position_name(declared.get("sinks", ()))}
    # A history that is a length of time needs no sink, a topic does.
    return {*names, HISTORY} if isinstance(declared.get("history"), Mapping) else names


def by_position_name(sinks: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Recorded sinks by the names of their positions, which were numbers."""
    return [(sink.get("name", str(number)), sink) for number, sink in enumerate(sinks)]


def sink_position(home: TableHome, name: str) -> int | None:
    """The newest batch that a sink has written; None if it has no position."""
    try:
        return int(json.loads(home.sink(name).read_bytes())["batch"])
    except FileNotFoundError:
        return None
