"""Runs tables alone, in a home of their own below their app's, and prepares them to replace others.

The switch is that of a migration (`migration/switch.py`): recorded first, and finished by the next command or
start if interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.handle import Handle
from keyfold.engine.migration.migrated_view import written_view
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
    """The home of a table that runs alone: files are stored like the app's, its view on the local disk."""
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
    """Runs tables until they have read everything in their streams, or in the logs of these.

    Their sinks continue once the tables are in place. All changes stay in the log. `spec`: the whole app.
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
    """The tables whose changelogs other tables of the app read, and which must be prepared for that."""
    names = {table.name for table in tables}
    others = [table for table in spec.tables if table.name not in names]
    read = {node.table for one in others for node in tree.reads(one.input) if isinstance(node, Changes)}
    return frozenset(names & (read | spec.read_outside))


def prepared(home: AppHome, beside: AppHome, table: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the switch needs for a table that has run; its view becomes a file of rows.

    `entry`: additions to the table's entry in app.json.
    """
    recorded = (beside.read_plan() or {})["tables"][table]
    made = replacement(home, beside, table, {**recorded, **entry})
    with beside.views.open(read_only=True) as store:
        return made | view_of(home, store, table, table) | {"keys": store.count(table)}


def replacement(home: AppHome, beside: AppHome, table: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """What the switch has to know of a table whose files take the place of others, but for its view.

    `entry`: what app.json is to have of it.
    """
    rebuilt = str(beside.table(table).path.relative_to(home.path))
    return {
        "table": table,
        "was": None,
        "rebuilt": rebuilt,
        "batch": None,
        "keys": None,
        "view": None,
        "entry": entry,
    }


def view_of(home: AppHome, store: ViewStore, of: str, table: str) -> dict[str, Any]:
    """Prepares the rows of a view as those of a table's; returns what else the switch has to know of them."""
    schema, position = store.schema(of), store.position(of)
    assert position is not None
    storage, rows = home.storage.below(f"{MIGRATE.name}/{table}"), as_changes(store.scan(of), schema)
    view = written_view(storage, schema, rows, position.at, position.watermark)
    return {"batch": position.batch, "view": view}
