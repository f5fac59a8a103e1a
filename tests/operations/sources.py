"""An app with a table, or two, for each kind of source; all of them get the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import keyfold as kf
from tests.kafka.cluster import Cluster

Row = dict[str, Any]
SCHEMA: Final = "k string, x bigint, t timestamp"
SECONDS: Final = 10
"""The length of a window."""


@dataclass(frozen=True)
class World:
    """Where the sources have their rows: directories below one, topics, and the app itself."""

    directory: Path
    cluster: Cluster
    topics: dict[str, str]

    def files(self, name: str) -> Path:
        return self.directory / name


@dataclass(frozen=True)
class Case:
    """A source of one kind: how it is declared, and how rows come into it."""

    kind: str
    tables: int
    declare: Callable[[World, str, Sequence[Row]], Any]
    add: Callable[[World, str, Sequence[Row]], None]

    def names(self, name: str) -> list[str]:
        """The tables that read it."""
        return [name] if self.tables == 1 else [f"{name}_{number}" for number in range(self.tables)]


def _file(world: World, name: str, rows: Sequence[Row]) -> None:
    directory = world.files(name)
    number = len(list(directory.iterdir()))
    (directory / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _messages(world: World, name: str, rows: Sequence[Row]) -> None:
    world.cluster.produce(world.topics[name], rows)


def _nothing(world: World, name: str, rows: Sequence[Row]) -> None:
    """The rows are in the declaration."""


def _json(world: World, name: str, rows: Sequence[Row]) -> Any:
    return kf.files(world.files(name), format="json")


def _topic(world: World, name: str, rows: Sequence[Row]) -> Any:
    return kf.kafka(world.cluster.address, topic=world.topics[name])


CASES: Final = {
    "files": Case("files", 1, _json, _file),
    "kafka": Case("kafka", 1, _topic, _messages),
    "rows": Case("rows", 1, lambda world, name, rows: kf.rows(rows), _nothing),
    "spark": Case("spark", 1, lambda world, name, rows: kf.spark("json", world.files(name)), _file),
    "shared_files": Case("files", 2, _json, _file),
    "shared_kafka": Case("kafka", 2, _topic, _messages),
}
"""What streams read. Two tables read a shared one's log; another table reads the log of the first."""
WINDOWED: Final = tuple(table for name, case in CASES.items() for table in case.names(name))
FOLLOWED: Final = "files"
FOLLOWER: Final = "follower"
"""Reads the changes of `FOLLOWED`."""
TABLES: Final = (*WINDOWED, FOLLOWER)
ENDLESS: Final = {"rate"}
"""Sources whose rows nobody chooses."""


def declared(world: World, rows: Sequence[Row], *, more: bool = False, name: str = "shop") -> kf.App:
    """The app; `rows`: all that its sources have by now. `more`: with one more column in each table."""
    app = kf.App(name)
    columns = {"n": "count(*)", "total": "sum(x)"} | ({"more": "count(x)"} if more else {})
    for source, case in CASES.items():
        stream = app.stream(
            f"{source}_in", case.declare(world, source, rows), SCHEMA, time="t", late="0 seconds"
        )
        for table in case.names(source):
            made = stream.by("k").tumbling(f"{SECONDS} seconds").table(table, columns, keep="1 day")
            if table == FOLLOWED:
                made.changes().by(odd="n % 2").table(FOLLOWER, windows="count(*)", total="sum(total)")
    return app


def add(world: World, rows: Sequence[Row]) -> None:
    """New rows for all sources."""
    for name, case in CASES.items():
        case.add(world, name, rows)
