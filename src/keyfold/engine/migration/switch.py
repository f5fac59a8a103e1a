"""Replaces old states by migrated ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from keyfold.engine.log.retention import forget_changes
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration import table_names
from keyfold.engine.migration.prepared_table import PreparedTable
from keyfold.engine.operations.checkpoint_copy import replace_checkpoint
from keyfold.engine.operations.files import copy_files
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.fault_points import FaultPoint, reached

VIEW: Final = "view.arrow"


def work(home: AppHome, table: str) -> TableHome:
    """The directory of a table's new checkpoint and view."""
    return TableHome(home.path / MIGRATE.name / table, home.remote)


def commit(home: AppHome, tables: Sequence[PreparedTable], entry: dict[str, Any]) -> None:
    """Commits a migration: what the switch needs for each table, and the audit log's entry."""
    sources = [f"{one.rebuilt or _checkpoint(one.table)}/" for one in tables]
    views = [f"{MIGRATE.name}/{one.table}/{VIEW}" for one in tables if one.view is not None]
    found = [f"{MIGRATE.name}/{file.name}" for file in home.storage.files(MIGRATE.name)]
    needed = [name.removeprefix(f"{MIGRATE.name}/") for name in found if name.startswith((*sources, *views))]
    MIGRATE.commit(home, {"tables": [one.to_json() for one in tables], "audit": entry}, files=needed)


def carry_out(home: AppHome, recorded: dict[str, Any]) -> dict[str, Any]:
    """Switches the tables, and writes their definitions."""
    tables = [PreparedTable.from_json(one) for one in recorded["tables"]]
    for one in tables:
        _switch(home, one)
    plan = home.read_plan()
    for one in tables:
        plan = _declare_entry(_switch_entry(plan, one, recorded["audit"]["at"]), one)
    home.write_plan(plan)
    reached(FaultPoint.MIGRATION_PLAN_DONE)
    for one in tables:
        if one.was is not None:
            home.storage.delete(f"tables/{one.was}")
    entry: dict[str, Any] = recorded["audit"]
    return entry


def _switch_entry(plan: StoredApp, one: PreparedTable, at: str) -> StoredApp:
    """The new entry of a table in app.json; a rebuilt table keeps its earlier names."""
    name, was, entry = one.table, one.was, one.entry
    earlier = entry.renamed or plan.table(name).renamed
    entry = replace(entry, renamed=earlier) if was is None else table_names.rename(entry, was, at)
    others = {known: table for known, table in plan.tables.items() if known != was}
    return replace(plan, tables={**others, name: entry}, streams={**one.streams, **plan.streams})


def _declare_entry(plan: StoredApp, one: PreparedTable) -> StoredApp:
    """Records the table's name and key for commands that look them up; the next start records the rest."""
    if one.key is None:
        return plan
    now, mine = {"name": one.table, "key": one.key}, (one.was, one.table)
    tables = plan.declared_tables.items()
    return plan.with_declared({name: {**table, **now} if name in mine else table for name, table in tables})


def _switch(home: AppHome, one: PreparedTable) -> None:
    """Switches one table: its files, under a new name if renamed, its checkpoint, its log and its view."""
    if one.rebuilt is not None:
        _replace(home, one, one.rebuilt)
        return
    table, was, storage = one.table, one.was, home.storage
    # Once the plan has the new name, the files under the old one are about to be deleted.
    if was is not None and was in home.read_plan().tables:
        storage.delete(f"tables/{table}")
        files = [file.name for file in storage.files(f"tables/{was}")]
        others = [name for name in files if not name.startswith("checkpoint/")]
        copy_files(storage, others, f"tables/{was}/", f"tables/{table}/")
    reached(FaultPoint.MIGRATION_COPIED, table=table)
    replace_checkpoint(storage, _checkpoint(table), table)
    reached(FaultPoint.MIGRATION_SWITCHED, table=table)
    # The changes of earlier batches have the columns, or the keys, of the old definition.
    forget_changes(TableLog(home.table(table).log_files), one.batch)
    _put_view(home, one)
    reached(FaultPoint.MIGRATION_VIEW_DONE, table=table)


def _checkpoint(table: str) -> str:
    return f"{MIGRATE.name}/{table}/checkpoint"


def _replace(home: AppHome, one: PreparedTable, source: str) -> None:
    """Switches a rebuilt table: all of its files, and its view."""
    target = f"tables/{one.table}"
    files = [file.name for file in home.storage.files(source)]
    home.storage.delete(target)
    copy_files(home.storage, files, f"{source}/", f"{target}/")
    home.table(one.table).spark.relocate()
    reached(FaultPoint.MIGRATION_SWITCHED, table=one.table)
    _put_view(home, one)
    reached(FaultPoint.MIGRATION_VIEW_DONE, table=one.table)


def _put_view(home: AppHome, one: PreparedTable) -> None:
    """Replaces the view by the prepared rows; a view that does not exist is built by the next start."""
    table, was, prepared = one.table, one.was, one.view
    if prepared is None or not (home.views.exists() or one.new_view):
        return
    with home.views.open(read_only=False) as store:
        if was is not None:
            store.drop(was)
        schema, rows = prepared.schema_of(table), _rows(home, table)
        store.rebuild(table, schema, rows, one.batch, prepared.at, prepared.watermark)


def _rows(home: AppHome, table: str) -> Iterator[pa.RecordBatch]:
    with home.storage.fetch(f"{MIGRATE.name}/{table}/{VIEW}") as path, pa.OSFile(str(path), "rb") as file:
        yield from pa.ipc.open_stream(file)
