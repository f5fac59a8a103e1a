"""Whether a definition fits the state on disk: a start compares it with the last recorded one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NoReturn

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.log.manifest import LAYOUT, other_layout
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition import differences, meaning_of
from keyfold.engine.recovery.definition_changes import (
    TableChange,
    compare,
    ending_history,
    readers_of,
    rename,
)
from keyfold.engine.sources import file_names
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.errors import HomeUnusable, StateMismatch
from keyfold.kernel.build import spark_version
from keyfold.plan import nodes, tree
from keyfold.plan.initial import InitialState

_MIGRATE: Final = "keyfold plan APP.py shows what keyfold migrate APP.py would do"


def change_of(spec: nodes.AppSpec, stored: StoredApp, compiled: Compiled, home: AppHome) -> TableChange:
    """How a table differs from what the last start recorded, under its present or its former name."""
    tables = stored.tables
    name, was = compiled.spec.name, None
    if home.table(name).planned_batch() is None:
        was = compiled.spec.was
        if was is None or was not in tables or home.table(was).planned_batch() is None:
            return TableChange(name, "new")
    old = tables.get(was or name)
    if old is None:
        return TableChange(
            name, "incompatible", ("app.json does not record which definition wrote its state",)
        )
    if was in {table.name for table in spec.tables}:
        return TableChange(
            name, "incompatible", (f"was: {was} is still declared, and its state can't belong to two tables",)
        )
    readers, table_home = readers_of(spec, stored, was or name), home.table(was or name)
    found = compare(old, meaning_of(compiled), compiled, readers, len(table_home.spark.operators()))
    if was is not None:
        found = rename(found, was, readers)
    found = _with_recorded(found, old, spec, compiled, home)
    return ending_history(found, compiled, table_home.committed_batch())


def _with_recorded(
    found: TableChange, old: StoredTable, spec: nodes.AppSpec, compiled: Compiled, home: AppHome
) -> TableChange:
    """The same change, if recorded rows can make it migratable by a rebuild, or fill its new columns."""
    since = recorded_since(compiled.spec, old, home)
    if since is None:
        return found
    readers = contents.with_readers(home, found.was or found.table)[1:]
    fills = found.kind != "incompatible" and found.mapping is not None and bool(found.mapping.added)
    if fills or (readers and found.kind == "incompatible" and found.was is None):
        together = [one for one in spec.tables if one.name in readers]
        whole = _has_all([compiled.spec, *together], home)
        return replace(found, recorded=since.isoformat(), whole=whole, readers=tuple(readers))
    if found.kind != "incompatible" or found.was is not None:
        return found
    effect = f"rebuilt from rows that its streams have recorded since {since:%Y-%m-%d %H:%M:%S} UTC"
    lost = "; what was folded from earlier rows is lost"
    if old.initial is not None and compiled.spec.initial is None:
        lost += ", and so are its initial rows, unless you restore initial="
    effects = (*found.effects, effect + lost)
    return TableChange(found.table, "migratable", effects, rebuilt=since.isoformat())


def _has_all(tables: Sequence[nodes.TableSpec], home: AppHome) -> bool:
    """Whether the logs of all streams of tables still have every row."""
    logs = [home.stream_home(one.name).log_files for table in tables for one in tree.sources(table.input)]
    return all(log.list() and totals(TableLog(log)).upto < 0 for log in logs)


def recorded_since(spec: nodes.TableSpec, old: StoredTable, home: AppHome) -> datetime | None:
    """The time since which all streams of a table have recorded rows in logs that it reads, if all have."""
    found = []
    for stream in tree.sources(spec.input):
        log = TableLog(home.stream_home(stream.name).log_files)
        first = next(log.after(totals(log).upto), None)
        if stream.history_ms is None or stream.name not in old.shared or first is None:
            return None
        found.append(first.at)
    if not found or tree.reads(spec.input) or isinstance(spec.initial, InitialState):
        return None
    return max(found)


def check(spec: nodes.AppSpec, stored: StoredApp, compiled: Compiled, home: AppHome) -> None:
    """Refuses a definition that does not fit the state on disk, and incomplete state."""
    _refuse_other_versions(stored, home)
    tables = stored.tables
    _refuse_other_case(spec.name, compiled, tables)
    table_home, old = home.table(compiled.spec.name), tables.get(compiled.spec.name)
    if table_home.planned_batch() is None:
        _refuse_old_name(compiled, tables, home)
        return
    if old is None:
        _refuse_unknown(compiled, home)
    refuse_lost_logs(compiled, table_home)
    _refuse_changes(spec, stored, compiled, home)
    file_names.check(compiled.name, compiled.spec.site, old.directories, compiled.files, table_home.spark)


def _refuse_other_versions(stored: StoredApp, home: AppHome) -> None:
    """Refuses a home in another layout, or with checkpoints written by a newer Spark."""
    if stored.layout not in (None, LAYOUT):
        raise other_layout(f"{home.shown}/app.json", stored.layout)
    spark = stored.spark or ""
    if version(spark) > version(spark_version()):
        raise HomeUnusable(
            f"the home was last written by Spark {spark}, and this is Spark {spark_version()}; "
            "nothing was changed",
            given=f"{home.shown}/app.json",
            hint=f"install pyspark {spark} or newer; an older Spark may not read its checkpoints",
        )


def version(text: str) -> tuple[int, ...]:
    """The first two numbers of a version; checkpoints do not differ in the third.

    >>> version("4.3.1")
    (4, 3)
    """
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _refuse_old_name(compiled: Compiled, tables: Mapping[str, StoredTable], home: AppHome) -> None:
    """Refuses to start a renamed table empty while its state exists under the old name."""
    was = compiled.spec.was
    if was in tables and home.table(str(was)).planned_batch() is not None:
        raise StateMismatch(
            f"{compiled.name} was renamed from {was}, whose state still exists; nothing was changed",
            where=compiled.spec.site,
            given=f"was={was!r}",
            hint=f"{_MIGRATE}; or omit was=, and it starts from the first row",
        )


def _refuse_changes(spec: nodes.AppSpec, stored: StoredApp, compiled: Compiled, home: AppHome) -> None:
    old = stored.tables[compiled.spec.name]
    change = change_of(spec, stored, compiled, home)
    fits = change.kind in ("same", "compatible")
    changes = [] if fits else differences(old.meaning, meaning_of(compiled))
    asked = compiled.spec.partitions
    # A rescale changes the checkpoint, but not the stored plan.
    on_disk = home.table(compiled.spec.name).spark.partitions() or old.partitions
    if asked is not None and asked != on_disk:
        changes.append(f"partitions: {on_disk} on disk, {asked} now (fixed at the first start)")
    if not changes:
        return
    can = change.kind == "migratable"
    more = f"{_MIGRATE}; or " if can else ""
    why = "" if can else ". keyfold plan APP.py says why it can't be migrated"
    raise StateMismatch(
        f"the state of {compiled.name} was written by another definition{', and can be migrated' * can}; "
        "nothing was changed",
        where=compiled.spec.site,
        given="\n".join(changes),
        hint=f"{more}go back to the old definition; or give the table a new name, which starts from the "
        f"first row; or {_reset(compiled)}; or use another home (--home DIR). Until then "
        f"keyfold get, rows and rejected still read the stored tables ({home.shown}){why}",
    )


def _refuse_unknown(compiled: Compiled, home: AppHome) -> NoReturn:
    """Refuses state without a recorded definition, since any definition would seem to fit."""
    raise HomeUnusable(
        f"{compiled.name} has state, but {home.shown}/app.json does not record which definition wrote it; "
        "nothing was changed",
        given=f"{home.table(compiled.spec.name).shown}/checkpoint",
        hint=f"restore app.json as it was when the app last ran; or {_reset(compiled)}",
    )


def check_log(compiled: Compiled | CompiledStream, home: TableHome) -> None:
    """Refuses a checkpoint that is older than the log: its next batches would publish nothing."""
    begun, newest = home.planned_batch(), TableLog(home.log_files).newest()
    if newest is not None and newest > (-1 if begun is None else begun):
        raise ahead_of_state(compiled, "log", newest, home, begun)


def ahead_of_state(
    compiled: Compiled | CompiledStream, what: str, at: int, home: TableHome, state: int | None
) -> HomeUnusable:
    """The error for a log or a view with batches that the checkpoint lacks."""
    has = "is missing" if state is None else f"is at batch {state}"
    return HomeUnusable(
        f"the {what} of {compiled.name} is at batch {at}, and its checkpoint {has}; nothing was changed",
        given=f"{home.shown}/checkpoint",
        hint=f"restore the checkpoint that belongs to the {what}; or {_reset(compiled)}",
    )


def refuse_lost_logs(compiled: Compiled | CompiledStream, home: TableHome) -> None:
    """Refuses a checkpoint without the log of its files, which would be read twice or never."""
    missing = home.spark.missing_log_entries(compiled.files.numbers())
    if missing:
        raise HomeUnusable(
            f"{compiled.name} can't continue: files that record what it has read are missing; "
            "nothing was changed",
            given=", ".join(map(str, missing)),
            hint=f"restore them from a backup of the home; or {_reset(compiled)}",
        )


def _reset(compiled: Compiled | CompiledStream) -> str:
    if isinstance(compiled, CompiledStream):
        command = f"keyfold reset {compiled.name} --with-readers"
        return f"`{command}`, after which the stream and its tables start over"
    return f"`keyfold reset {compiled.name}`, after which it starts from the first row"


def _refuse_other_case(app: str, compiled: Compiled, tables: Mapping[str, StoredTable]) -> None:
    """Refuses a name that differs from a known one only in case: both would have the same view."""
    name = compiled.spec.name
    for known in tables:
        if known.lower() == name.lower() and known != name:
            raise StateMismatch(
                f"{app}.{name} differs from the table {known} on disk only in upper and lower case",
                where=compiled.spec.site,
                given=name,
                hint=f"{known}, or another name",
            )
