"""Runs tables alone, in a home of their own below their app's, and prepares them to replace others.

The switch is that of a migration (`migration/switch.py`): recorded first, and finished by the next command or
start if interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from keyfold.engine.migration.migrated_view import write_view
from keyfold.engine.migration.prepared_table import PreparedTable, PreparedView
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.startup.home import HeldHome, hold_home
from keyfold.engine.startup.launch import launch
from keyfold.engine.startup.options import StartOptions
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, Changes, Source, TableSpec
from keyfold.views.changes import as_changes
from keyfold.views.contract import ViewStore
from keyfold.views.stores import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def home_of(home: AppHome, table: str) -> AppHome:
    """The home of a table that runs alone: files are stored like the app's, its view on the local disk."""
    below = f"{MIGRATE.name}/{table}-rebuilt/{home.path.name}"
    return AppHome(home.path / below, None if home.remote is None else home.remote.below(below))


@contextmanager
def hold(
    spark: SparkSession,
    home: AppHome,
    spec: AppSpec,
    tables: Sequence[TableSpec],
    streams: Sequence[Source],
    feeds: Mapping[str, Path] | None = None,
) -> Iterator[HeldHome]:
    """Holds a home for tables that run alone on streams. `spec`: the whole app.

    Their sinks continue once the tables are in place. All changes stay in the log.
    """
    alone = tuple(replace(table, sinks=(), history_topic=None, latency=None) for table in tables)
    spec = replace(spec, tables=alone, streams=tuple(streams), read_outside=_read_by_others(spec, tables))
    address = home.path.parent if home.remote is None else home.remote.uri().rpartition("/")[0]
    options = StartOptions(feeds=feeds or {}, changelog=True, recorded=True)
    settings = {"views": LOCAL, "local": home.path.parent}
    with hold_home(spec, spark, address, settings, options) as held:
        yield held


def read_all(held: HeldHome) -> None:
    """Runs the tables until they have read everything in their streams, or in the logs of these."""
    with launch(held) as handle:
        handle.drain()


def _read_by_others(spec: AppSpec, tables: Sequence[TableSpec]) -> frozenset[str]:
    """The tables whose changelogs other tables of the app read, and which must be prepared for that."""
    names = {table.name for table in tables}
    others = [table for table in spec.tables if table.name not in names]
    read = {node.table for one in others for node in tree.reads(one.input) if isinstance(node, Changes)}
    return frozenset(names & (read | spec.read_outside))


def prepare(home: AppHome, beside: AppHome, table: str, entry: StoredTable) -> PreparedTable:
    """What the switch needs for a table that has run; its view becomes a file of rows.

    `entry`: the table's entry in app.json.
    """
    with beside.views.open(read_only=True) as store:
        view, keys, position = view_of(home, store, table, table), store.count(table), store.position(table)
    assert position is not None
    files = directory(home, beside, table)
    return PreparedTable(table, position.batch, entry, rebuilt=files, keys=keys, view=view)


def directory(home: AppHome, beside: AppHome, table: str) -> str:
    """Where in the home the files of a table are that has run beside it."""
    return str(beside.table(table).path.relative_to(home.path))


def view_of(home: AppHome, store: ViewStore, of: str, table: str) -> PreparedView:
    """Prepares the rows of a view as those of a table's."""
    schema, position = store.schema(of), store.position(of)
    assert position is not None
    storage, rows = home.storage.below(f"{MIGRATE.name}/{table}"), as_changes(store.scan(of), schema)
    return write_view(storage, schema, rows, position.at, position.watermark)
