"""Runs a table alone, in a home of its own below its app's, and prepares it to take the place of another.

The switch is that of a migration (`savepoint/migrating.py`): recorded first, and finished by whoever comes
next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keyfold.engine.handle import Handle
from keyfold.engine.savepoint import migrating
from keyfold.engine.storage.layout import AppHome
from keyfold.plan.nodes import AppSpec, Source, TableSpec
from keyfold.views.changes import as_changes
from keyfold.views.contract import ViewStore
from keyfold.views.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[..., Handle]
"""`keyfold.engine.start.start`, which itself prepares tables with this module."""


def home_of(place: AppHome, table: str) -> AppHome:
    """Where a table is run."""
    return AppHome(place.path / migrating.WORK / f"{table}-rebuilt" / place.path.name)


def run(
    start: Start,
    spark: SparkSession,
    place: AppHome,
    spec: AppSpec,
    table: TableSpec,
    streams: Sequence[Source],
    *,
    feeds: Mapping[str, Path] | None = None,
) -> None:
    """Runs a table until it has read all that its streams have; of a stream with a log, what is recorded.

    Its sinks go on when it is in place. All changes stay in the log.
    """
    alone = replace(table, sinks=(), history_topic=None, latency=None)
    handle = start(
        replace(spec, tables=(alone,), streams=tuple(streams)),
        spark=spark,
        home=home_of(place, table.name).path.parent,
        settings={"views": "sqlite", "local": None},
        feeds=feeds or {},
        changelog=True,
        recorded=True,
    )
    with handle:
        handle.drain()


def prepared(place: AppHome, table: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the switch has to know of a table that has run; its view becomes a file of rows.

    `entry`: what app.json is to have of the table beside what its run has recorded.
    """
    beside = home_of(place, table)
    with closing(open_store(beside.views, read_only=True)) as store:
        view, keys = written_view(place, store, table, table), store.count(table)
    recorded = (beside.read_plan() or {})["tables"][table]
    return {
        "table": table,
        "was": None,
        "rebuilt": str(beside.table(table).path.relative_to(place.path)),
        "keys": keys,
        **view,
        "entry": {**recorded, **entry},
    }


def written_view(place: AppHome, store: ViewStore, of: str, table: str) -> dict[str, Any]:
    """Writes the rows of a view into a file, for the view of a table; returns what else that needs."""
    schema, position = store.schema(of), store.position(of)
    assert position is not None
    with tempfile.TemporaryDirectory(prefix="keyfold-migrate-") as directory:
        path = Path(directory) / migrating.VIEW
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema.arrow) as out:
            for rows in as_changes(store.scan(of), schema):
                out.write_batch(rows)
        place.storage.send(path, f"{migrating.WORK}/{table}/{migrating.VIEW}")
    watermark = None if position.watermark is None else position.watermark.isoformat()
    return {
        "batch": position.batch,
        "view": {"schema": schema.to_json(), "at": position.at.isoformat(), "watermark": watermark},
    }
