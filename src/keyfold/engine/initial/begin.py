"""Gives tables their initial rows or state, each before its first start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.beside import Start
from keyfold.engine.initial import rows, state
from keyfold.engine.log import shared_streams
from keyfold.engine.migration import switch
from keyfold.engine.operations import leftovers
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.sources import initial_files, inline_rows
from keyfold.engine.startup_phases import Tell
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import StateMismatch
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan import tree
from keyfold.plan.describe.phrases import initial_words
from keyfold.plan.initial import InitialRows
from keyfold.plan.nodes import AppSpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def begin(
    start: Start,
    spark: SparkSession,
    spec: AppSpec,
    home: AppHome,
    feeds: Mapping[str, Path],
    tell: Tell,
    *,
    views: bool,
) -> None:
    """Gives new tables the content that `initial` declares; the caller holds the home.

    `views`: whether the app has views.
    """
    for table in spec.tables:
        if table.initial is None or _is_renamed(table, home):
            continue
        if home.table(table.name).begun() is not None:
            stored = home.read_plan() or {}
            _require_same(table, (stored.get("tables") or {}).get(table.name) or {})
            continue
        tell("initial")
        _begin(start, spark, spec, home, table, feeds, views)


def begins(stored: Mapping[str, Any] | None) -> dict[str, int]:
    """The boundary of each table that has initial rows, from which on it reads those of its stream."""
    tables = ((stored or {}).get("tables") or {}).items()
    found = {name: (entry.get("initial") or {}).get("until") for name, entry in tables}
    return {name: initial_files.micros(until) for name, until in found.items() if until is not None}


def _begin(
    start: Start,
    spark: SparkSession,
    spec: AppSpec,
    home: AppHome,
    table: TableSpec,
    feeds: Mapping[str, Path],
    views: bool,
) -> None:
    """Prepares one table beside the home, and moves it into place."""
    assert table.initial is not None
    stream = tree.sources(table.input)[0]
    read: dict[str, str | Path] = {**inline_rows.directories(spec, home), **feeds}
    shared = shared_streams.decided(spec, home.read_plan(), home)
    leftovers.remove(home, MIGRATE.name)
    try:
        if isinstance(table.initial, InitialRows):
            made = rows.folded(start, spark, home, shared, table, table.initial, read)
        else:
            made = state.taken(spark, home, shared, table, table.initial, read)
        made["new_view"] = views
        made["streams"] = {stream.name: {"shared": stream.name in shared.chosen}}
        reached(FaultPoint.INITIAL_READY, table=table.name)
    except Exception:
        leftovers.discard(home, MIGRATE.name)
        raise
    entry = audit.entry("initial", None, tables=[table.name], **made["entry"]["initial"])
    switch.commit(home, [made], entry)
    reached(FaultPoint.MIGRATION_RECORDED)
    MIGRATE.finish(home)


def _is_renamed(table: TableSpec, home: AppHome) -> bool:
    """Whether the table has state under its old name, which a start refuses, and a migration renames."""
    return table.was is not None and home.table(table.was).begun() is not None


def _require_same(table: TableSpec, entry: Mapping[str, Any]) -> None:
    """Refuses a table that has begun with other initial rows."""
    assert table.initial is not None
    before, now = (entry.get("initial") or {}).get("declared"), initial_words(table.initial)
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
