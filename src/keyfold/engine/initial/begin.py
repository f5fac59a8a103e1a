"""Gives tables their initial rows or state, each before its first start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from keyfold.engine.initial import rows, state
from keyfold.engine.log import shared_streams
from keyfold.engine.migration import switch
from keyfold.engine.operations import leftovers
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.sources import inline_rows
from keyfold.engine.startup.home import HeldHome
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredStream, StoredTable
from keyfold.errors import StateMismatch
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan import tree
from keyfold.plan.describe.phrases import initial_words
from keyfold.plan.initial import InitialRows
from keyfold.plan.nodes import TableSpec


def begin(held: HeldHome) -> None:
    """Gives new tables the content that `initial` declares."""
    home = held.home
    for table in held.spec.tables:
        if table.initial is None or _is_renamed(table, home):
            continue
        if home.table(table.name).planned_batch() is not None:
            _require_same(table, home.read_plan().table(table.name))
            continue
        held.options.tell("initial")
        _begin(held, table)


def _begin(held: HeldHome, table: TableSpec) -> None:
    """Prepares one table beside the home, and moves it into place."""
    assert table.initial is not None
    spec, home, spark = held.spec, held.home, held.spark
    stream = tree.sources(table.input)[0]
    read: dict[str, str | Path] = {**inline_rows.directories(spec, home), **held.options.feeds}
    shared = shared_streams.decide(spec, home.read_plan(), home)
    leftovers.remove(home, MIGRATE.name)
    try:
        if isinstance(table.initial, InitialRows):
            made = rows.fold_files(spark, home, shared, table, table.initial, read)
        else:
            made = state.copy_state(spark, home, shared, table, table.initial, read)
        streams = {stream.name: StoredStream(stream.name in shared.chosen)}
        made = replace(made, new_view=held.settings.views != "none", streams=streams)
        reached(FaultPoint.INITIAL_READY, table=table.name)
    except Exception:
        leftovers.discard(home, MIGRATE.name)
        raise
    entry = audit.entry("initial", None, tables=[table.name], **(made.entry.initial or {}))
    switch.commit(home, [made], entry)
    reached(FaultPoint.MIGRATION_RECORDED)
    MIGRATE.finish(home)


def _is_renamed(table: TableSpec, home: AppHome) -> bool:
    """Whether the table has state under its old name, which a start refuses, and a migration renames."""
    return table.was is not None and home.table(table.was).planned_batch() is not None


def _require_same(table: TableSpec, entry: StoredTable) -> None:
    """Refuses a table that has begun with other initial rows."""
    assert table.initial is not None
    before, now = entry.began_with, initial_words(table.initial)
    if before != now:
        name = f"{table.app}.{table.name}"
        began = f"with {before}" if before else "with its stream"
        raise StateMismatch(
            f"{name} has state already, and began {began}; initial= counts before the first row alone",
            where=table.site,
            given=f"initial={now}",
            hint=f"omit or restore initial=; or `keyfold reset {name}`, after which it starts over; "
            "or give the table another name",
        )
