"""Runs tables alone, in a home of their own below their app's, and prepares them to take others' places.

The switch is that of a migration (`migration/switch.py`): recorded first, and finished by whoever comes
next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keyfold.engine.handle import Handle
from keyfold.engine.migration.switch import VIEW
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.storage.layout import AppHome
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, Changes, Source, TableSpec
from keyfold.views.changes import as_changes
from keyfold.views.contract import ViewStore
from keyfold.views.stores import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Start = Callable[..., Handle]
"""`keyfold.engine.start.start`, which itself prepares tables with this module."""


def home_of(home: AppHome, table: str) -> AppHome:
    """Where a table is run: its files are where those of the app are, its view is on the local disk."""
    below = f"{MIGRATE.name}/{table}-rebuilt/{home.path.name}"
    return AppHome(home.path / below, None if home.remote is None else home.remote.below(below))


def run(
    start: Start,
    spark: SparkSession,
    home: AppHome,
    spec: AppSpec,
    tables: Sequence[TableSpec],
    streams: Sequence[Source],
    *,
    feeds: Mapping[str, Path] | None = None,
) -> None:
    """Runs tables until they have read all that their streams have; of a stream with a log, what is recorded.

    Their sinks go on when they are in place. All changes stay in the log. `spec`: the whole app.
    """
    alone = tuple(replace(table, sinks=(), history_topic=None, latency=None) for table in tables)
    address = home.path.parent if home.remote is None else home.remote.uri().rpartition("/")[0]
    handle = start(
        replace(spec, tables=alone, streams=tuple(streams), read_outside=_read_by_others(spec, tables)),
        spark=spark,
        home=address,
        settings={"views": LOCAL, "local": home.path.parent},
        feeds=feeds or {},
        changelog=True,
        recorded=True,
    )
    with handle:
        handle.drain()


def _read_by_others(spec: AppSpec, tables: Sequence[TableSpec]) -> frozenset[str]:
    """The tables whose changelog other tables of the app read, and which must be prepared for that."""
    names = {table.name for table in tables}
    others = [table for table in spec.tables if table.name not in names]
    read = {node.table for one in others for node in tree.reads(one.input) if isinstance(node, Changes)}
    return frozenset(names & (read | spec.read_outside))


def prepared(home: AppHome, beside: AppHome, table: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the switch has to know of a table that has run; its view becomes a file of rows.

    `entry`: what app.json is to have of the table beside what its run has recorded.
    """
    with beside.views.open(read_only=True) as store:
        view, keys = written_view(home, store, table, table), store.count(table)
    recorded = (beside.read_plan() or {})["tables"][table]
    return {
        "table": table,
        "was": None,
        "rebuilt": str(beside.table(table).path.relative_to(home.path)),
        "keys": keys,
        **view,
        "entry": {**recorded, **entry},
    }


def written_view(home: AppHome, store: ViewStore, of: str, table: str) -> dict[str, Any]:
    """Writes the rows of a view into a file, for the view of a table; returns what else that needs."""
    schema, position = store.schema(of), store.position(of)
    assert position is not None
    with tempfile.TemporaryDirectory(prefix="keyfold-migrate-") as directory:
        path = Path(directory) / VIEW
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema.arrow) as out:
            for rows in as_changes(store.scan(of), schema):
                out.write_batch(rows)
        home.storage.send(path, f"{MIGRATE.name}/{table}/{VIEW}")
    watermark = None if position.watermark is None else position.watermark.isoformat()
    return {
        "batch": position.batch,
        "view": {"schema": schema.to_json(), "at": position.at.isoformat(), "watermark": watermark},
    }
