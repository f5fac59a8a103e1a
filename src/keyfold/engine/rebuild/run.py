"""Rebuilds tables from the rows of their streams, beside the old ones.

Tables that read each other run together, in a home of their own below the app's, which shares the streams'
logs: streams that have one are read from it, others from their source. `keyfold migrate` and `keyfold
rebuild` then replace all of the old tables at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from keyfold.engine import beside
from keyfold.engine.initial.begin import begin
from keyfold.engine.migration.migrate import Migrated, Tell
from keyfold.engine.migration.prepared_table import PreparedTable
from keyfold.engine.operations import leftovers
from keyfold.engine.operations.files import copy_files
from keyfold.engine.rebuild.groups import groups
from keyfold.engine.sources import inline_rows
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, Source, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession, spec: AppSpec, home: AppHome, tables: Sequence[Migrated], feeds: Path, tell: Tell
) -> list[PreparedTable]:
    """Rebuilds the tables; returns what the switch needs. `feeds`: a directory for empty inputs."""
    by_name = {one.compiled.spec.name: one for one in tables}
    found = []
    for group in groups([one.compiled for one in tables]):
        tell(f"rebuilding {', '.join(one.spec.name for one in group)}")
        found += _together(spark, spec, home, [by_name[one.spec.name] for one in group], feeds)
    return found


def _together(
    spark: SparkSession, spec: AppSpec, home: AppHome, tables: Sequence[Migrated], feeds: Path
) -> list[PreparedTable]:
    specs = [one.compiled.spec for one in tables]
    direct = frozenset().union(*(one.change.sources for one in tables))
    streams = {stream.name: stream for one in specs for stream in tree.sources(one.input)}
    written = {one.name for one in streams.values() if one.connector.kind == "rows"} & direct
    table_home = _prepare_home(home, specs[0].name, [n for n in streams if n not in direct or n in written])
    inputs = {
        one.name: feeds / one.name
        for one in streams.values()
        if one.name not in direct and one.connector.kind in ("rows", "kafka")
    }
    for directory in inputs.values():
        directory.mkdir(parents=True, exist_ok=True)
    # Without the app's other tables, a stream that is shared with those would not be shared.
    read = [
        replace(one, shared=one.name not in direct, history_ms=None if one.name in direct else one.history_ms)
        for one in streams.values()
    ]
    # In the home's own files, by whose names a table knows what it has read.
    read = [inline_rows.as_written(one, home) if one.name in written else one for one in read]
    with beside.hold(spark, table_home, spec, [_reading(one, read) for one in specs], read, inputs) as held:
        begin(held)
        beside.read_all(held)
    entries = table_home.read_plan().tables
    found = {one.change.table: _since(one) for one in tables}
    return [
        beside.prepare(home, table_home, name, replace(entries[name], since=since))
        for name, since in found.items()
    ]


def _prepare_home(home: AppHome, table: str, streams: Sequence[str]) -> AppHome:
    """A home for the tables, with the files of streams in the app's home, and the definitions of streams."""
    table_home = beside.home_of(home, table)
    below = str(table_home.path.relative_to(home.path))
    leftovers.remove(home, str(table_home.path.parent.relative_to(home.path)))
    for stream in streams:
        files = [file.name for file in home.storage.files(f"streams/{stream}")]
        copy_files(home.storage, files, f"streams/{stream}/", f"{below}/streams/{stream}/")
    table_home.write_plan(home.read_plan().with_tables({}))
    return table_home


def _reading(table: TableSpec, streams: Sequence[Source]) -> TableSpec:
    for stream in streams:
        table = replace(table, input=tree.with_source(table.input, stream))
    return table


def _since(one: Migrated) -> dict[str, KnownSince]:
    """Since when the table's columns cover rows; nothing where they cover all."""
    change, columns = one.change, one.compiled.spec.columns
    if change.whole or change.sources:
        # The time of rows that a source no longer has is unknown; the audit log says what was lost.
        return {}
    assert change.rebuilt is not None
    began = KnownSince(datetime.fromisoformat(change.rebuilt), None)
    return dict.fromkeys((name for name, _ in columns), began)
