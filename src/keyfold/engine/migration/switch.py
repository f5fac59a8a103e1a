"""Puts migrated states, which are recorded in `migrating.json`, in the place of the old ones.

It is certain from then on: if the command is killed, the next command or start finishes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from keyfold.engine.log.retention import forget_changes
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.migration import table_names
from keyfold.engine.operations.checkpoint_copy import copied_checkpoint
from keyfold.engine.operations.leftovers import remove
from keyfold.engine.savepoint.capture import copy_files
from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.fault_points import FaultPoint, reached
from keyfold.views.contract import ViewSchema
from keyfold.views.stores import open_store

INTENT: Final = "migrating.json"
WORK: Final = "migrating"
VIEW: Final = "view.arrow"


def work(place: AppHome, table: str) -> TableHome:
    """The directory of a table's new checkpoint and view."""
    return TableHome(place.path / WORK / table, place.remote)


def record(place: AppHome, tables: Sequence[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Makes a migration certain: what the switch has to know of each table, and the audit log's entry."""
    sources = [f"{one['rebuilt'] or _checkpoint(one['table'])}/" for one in tables]
    views = [f"{WORK}/{one['table']}/{VIEW}" for one in tables if one["view"] is not None]
    found = [f"{WORK}/{file.name}" for file in place.storage.files(WORK)]
    needed = [name.removeprefix(f"{WORK}/") for name in found if name.startswith((*sources, *views))]
    intents.record(place.storage, INTENT, {"tables": list(tables), "audit": entry}, WORK, needed)


def finish(place: AppHome) -> None:
    """Carries out a recorded migration, if need be again, or removes what was not recorded."""
    recorded = intents.begun(place, INTENT, WORK)
    if recorded is None:
        remove(place, WORK)
        return
    for one in recorded["tables"]:
        _switch(place, one)
    plan = place.read_plan() or {"tables": {}}
    for one in recorded["tables"]:
        plan["tables"].pop(one["was"], None)
        before = plan["tables"].get(one["table"]) or {}
        plan["tables"][one["table"]] = _entry(one, before, recorded["audit"]["at"])
        plan["streams"] = {**one.get("streams", {}), **plan.get("streams", {})}
        _declare(plan, one)
    place.write_plan(plan)
    reached(FaultPoint.MIGRATION_PLAN_DONE)
    for one in recorded["tables"]:
        if one["was"] is not None:
            place.storage.delete(f"tables/{one['was']}")
    audit.append(place.storage, recorded["audit"])
    place.storage.delete(INTENT)
    remove(place, WORK)


def _entry(one: dict[str, Any], before: Mapping[str, Any], at: str) -> dict[str, Any]:
    """What app.json has of a table from now on; one that was made anew keeps its earlier names."""
    if one["was"] is not None:
        return table_names.renamed(one["entry"], one["was"], at)
    kept = {part: before[part] for part in (table_names.RENAMED,) if part in before}
    return {**kept, **one["entry"]}


def _declare(plan: dict[str, Any], one: dict[str, Any]) -> None:
    """The table's name and key as commands look them up; all else is declared anew by the next start."""
    for table in (plan.get("declared") or {}).get("tables", ()):
        if table["name"] in (one["was"], one["table"]) and "key" in one:
            table |= {"name": one["table"], "key": one["key"]}


def _switch(place: AppHome, one: dict[str, Any]) -> None:
    """One table: its files under the new name, the new checkpoint, the log without changes, the new view."""
    if one["rebuilt"] is not None:
        _replace(place, one)
        return
    table, was, storage = one["table"], one["was"], place.storage
    # Once the plan has the new name, the files of the old one are on their way out.
    if was is not None and was in (place.read_plan() or {"tables": {}})["tables"]:
        storage.delete(f"tables/{table}")
        files = [file.name for file in storage.files(f"tables/{was}")]
        others = [name for name in files if not name.startswith("checkpoint/")]
        copy_files(storage, others, f"tables/{was}/", f"tables/{table}/")
    reached(FaultPoint.MIGRATION_COPIED, table=table)
    source, target = _checkpoint(table), f"tables/{table}/checkpoint"
    files = [file.name for file in storage.files(source)]
    storage.delete(target)
    copied_checkpoint(storage, source, target, files)
    reached(FaultPoint.MIGRATION_SWITCHED, table=table)
    # The changes of earlier batches have the columns, or the keys, of the old definition.
    forget_changes(TableLog(place.table(table).log_files), one["batch"])
    _put_view(place, one)
    reached(FaultPoint.MIGRATION_VIEW_DONE, table=table)


def _checkpoint(table: str) -> str:
    return f"{WORK}/{table}/checkpoint"


def _replace(place: AppHome, one: dict[str, Any]) -> None:
    """A table that was rebuilt: all of its files, and its view."""
    source, target = one["rebuilt"], f"tables/{one['table']}"
    files = [file.name for file in place.storage.files(source)]
    place.storage.delete(target)
    copy_files(place.storage, files, f"{source}/", f"{target}/")
    place.table(one["table"]).spark.relocate()
    reached(FaultPoint.MIGRATION_SWITCHED, table=one["table"])
    _put_view(place, one)
    reached(FaultPoint.MIGRATION_VIEW_DONE, table=one["table"])


def _put_view(place: AppHome, one: dict[str, Any]) -> None:
    """Replaces the view by the rows that were prepared; without a view, the next start builds it."""
    table, was, prepared = one["table"], one["was"], one["view"]
    if prepared is None or not (place.views.exists() or one.get("new_view")):
        return
    schema = ViewSchema.from_json(table, prepared["schema"])
    at = datetime.fromisoformat(prepared["at"])
    watermark = None if prepared["watermark"] is None else datetime.fromisoformat(prepared["watermark"])
    with closing(open_store(place.views, read_only=False)) as store:
        if was is not None:
            store.drop(was)
        store.rebuild(table, schema, _rows(place, table), one["batch"], at, watermark)


def _rows(place: AppHome, table: str) -> Iterator[pa.RecordBatch]:
    with place.storage.fetched(f"{WORK}/{table}/{VIEW}") as path, pa.OSFile(str(path), "rb") as file:
        yield from pa.ipc.open_stream(file)
