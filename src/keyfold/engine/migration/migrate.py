"""Migrates tables to a changed definition: on a copy, which is compared and then switched in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.migration import migrated_state, migrated_view, switch
from keyfold.engine.migration.prepared_table import PreparedTable
from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import MIGRATE
from keyfold.engine.recovery import definition
from keyfold.engine.recovery.definition_changes import TableChange
from keyfold.engine.recovery.followed import require_followed
from keyfold.engine.savepoint.capture import capture, name_before, silent
from keyfold.engine.storage import audit
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, reached
from keyfold.plan.describe.phrases import expr_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tell = Callable[[str], None]
"""Receives a description of the next step."""


@dataclass(frozen=True)
class Migrated:
    """A table to migrate: its compiled form, and how it differs."""

    compiled: Compiled
    change: TableChange


Rebuild = Callable[[Sequence[Migrated], Tell], list[PreparedTable]]
"""Rebuilds tables from rows, beside the old ones; returns what the switch needs for each."""


def migrate(
    spark: SparkSession,
    home: AppHome,
    tables: Sequence[Migrated],
    why: str | None,
    tell: Tell,
    rebuild: Rebuild | None = None,
    what: str = "migrate",
) -> dict[str, Any]:
    """Migrates tables of a stopped app; returns the entry for the audit log, of which `what` is the name.

    A savepoint is made before anything is changed; the entry names it as `undo`. `rebuild` rebuilds the
    tables that can't be migrated; see `engine/rebuild`.
    """
    with unfinished.held(home):
        stored = home.read_plan()
        batches = {one.change.table: _batch(home, one.change) for one in tables}
        with MIGRATE.preparing(home, f"{what} of {home.path.name} failed"):
            now = datetime.now(UTC)
            rebuilt = [one for one in tables if one.change.rebuilt is not None]
            recorded = [
                _prepare(spark, home, stored, one, now, batches, tell)
                for one in tables
                if one.change.rebuilt is None
            ]
            if rebuilt:
                assert rebuild is not None
                recorded += rebuild(rebuilt, tell)
            keys = {one.change.table: _key(one.compiled) for one in tables}
            recorded = [replace(made, key=keys[made.table]) for made in recorded]
        tell("making a savepoint")
        reached(FaultPoint.MIGRATION_READY)
        names = ", ".join(batches)
        undo = capture(home, name_before(what), (), f"before {what} of {names}", silent)
        entry = audit.entry(
            what,
            why,
            tables=list(batches),
            batches=batches,
            keys={one.table: one.keys for one in recorded},
            effects={one.change.table: list(one.change.effects) for one in tables},
            undo=undo.name,
        )
        switch.commit(home, recorded, entry)
        reached(FaultPoint.MIGRATION_RECORDED)
        tell("switching")
        MIGRATE.finish(home)
        return entry


def _key(compiled: Compiled) -> dict[str, str]:
    """The declared key, for commands that look it up."""
    return {name: expr_words(expression) for name, expression in compiled.spec.keys}


def _batch(home: AppHome, change: TableChange) -> int:
    """The batch whose state is migrated; refuses an unfinished one, and one that readers haven't read."""
    name = f"{home.path.name}.{change.was or change.table}"
    table_home = home.table(change.was or change.table)
    committed, begun = table_home.committed_batch(), table_home.planned_batch()
    if committed is None or begun != committed:
        raise BadOption(
            f"batch {begun} of {name} is not finished",
            given=change.table,
            hint="start the app with the old definition, let it finish the batch, and stop it "
            "(keyfold run APP.py --drain)",
        )
    require_followed(home, change.was or change.table)
    return committed


def _prepare(
    spark: SparkSession,
    home: AppHome,
    stored: StoredApp,
    one: Migrated,
    now: datetime,
    batches: Mapping[str, int],
    tell: Tell,
) -> PreparedTable:
    """Writes a table's new state and view into its work directory; returns what the switch needs."""
    compiled, change = one.compiled, one.change
    table, name = change.table, change.was or change.table
    old, batch = stored.tables[name], batches[table]
    source, target = home.table(name), switch.work(home, table)
    home.storage.delete(f"{MIGRATE.name}/{table}")
    keys = None
    if change.mapping is None:
        tell(f"copying the state of {name}")
        migrated_state.copy_checkpoint(source, target, state=True)
    else:
        tell(f"writing the new state of {table}, and comparing it")
        migrated_state.copy_checkpoint(source, target, state=False)
        keys = migrated_state.write_state(spark, compiled, old, change.mapping, source, target, batch)
    tell(f"writing the new view of {table}")
    view = migrated_view.prepare(spark, compiled, change.mapping, home, name, target, batch)
    entry = _entry(old, compiled, change, KnownSince(now, batch))
    return PreparedTable(table, batch, entry, was=change.was, keys=keys, view=view)


def _entry(old: StoredTable, compiled: Compiled, change: TableChange, now: KnownSince) -> StoredTable:
    """The table's entry in app.json: the new definition, with the inputs it had."""
    renames, added = {}, []
    if change.mapping is not None:
        renames, added = change.mapping.renames, change.mapping.added
    were = {name: renames.get(name, name) for name, _ in compiled.spec.columns}
    since = {name: old.since[was] for name, was in were.items() if was in old.since}
    since |= dict.fromkeys(added, now)
    return replace(definition.with_definition(old, compiled), since=since)
