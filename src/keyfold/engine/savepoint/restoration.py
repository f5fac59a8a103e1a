"""Replaces the app's files by those of a savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyfold.engine.operations import removal as table_removal
from keyfold.engine.operations.files import copy_files
from keyfold.engine.operations.kinds import RESTORE
from keyfold.engine.savepoint.capture import forget_sinks
from keyfold.engine.savepoint.manifest import FILE as MANIFEST
from keyfold.engine.savepoint.manifest import SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.fault_points import FaultPoint, reached


def commit(home: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    """Commits a restore."""
    files = [MANIFEST, *([] if savepoint.view is None else [VIEW])]
    files += [f"{FILES}/{file.path}" for file in savepoint.files]
    RESTORE.commit(home, entry, prepared=f"savepoints/{savepoint.name}", files=files)


def carry_out(home: AppHome, entry: dict[str, Any]) -> dict[str, Any]:
    """Restores tables, views and definitions; the record is the entry of the audit log."""
    savepoint = Savepoints(home).find(entry["savepoint"])
    for table in entry["removed"]:
        home.storage.delete(f"tables/{table}")
    for table in entry["tables"]:
        home.storage.delete(f"tables/{table}")
        _put_back(home, savepoint, savepoint.of_table(table))
        forget_sinks(home, table)
        reached(FaultPoint.RESTORE_TABLE_DONE, table=table)
    if entry["whole"]:
        home.storage.delete("streams")
        _put_back(home, savepoint, [file for file in savepoint.files if file.path.startswith("streams/")])
    _put_back_views(home, savepoint, entry)
    reached(FaultPoint.RESTORE_VIEW_DONE)
    _put_back_plan(home, savepoint, entry)
    reached(FaultPoint.RESTORE_PLAN_DONE)
    return entry


def _put_back(home: AppHome, savepoint: Savepoint, files: Sequence[SavedFile]) -> None:
    source = f"savepoints/{savepoint.name}/{FILES}/"
    copy_files(home.storage, [file.path for file in files], source, "")


def _put_back_views(home: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    """Restores the views; those of single tables are dropped, and the next start rebuilds them."""
    if not entry["whole"]:
        table_removal.remove_views(home, entry["tables"])
        return
    if savepoint.view is None:
        home.views.remove()
        return
    with Savepoints(home).storage(savepoint.name).fetch(VIEW) as copy:
        home.views.restore_from(copy)


def _put_back_plan(home: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    now = home.read_plan()
    saved = _still_private(Savepoints(home).plan(savepoint.name), now)
    if entry["whole"] or not now.exists:
        home.write_plan(saved)
        return
    tables = {name: saved.tables[name] for name in entry["tables"] if name in saved.tables}
    # The declaration says whose the sinks of a table are.
    declared = {name: one for name, one in saved.declared_tables.items() if name in entry["tables"]}
    now = now.with_tables({**now.tables, **tables})
    home.write_plan(now.with_declared({**now.declared_tables, **declared}))


def _still_private(saved: StoredApp, now: StoredApp) -> StoredApp:
    """The saved declaration with the columns that became private since.

    The views that come back do not know of these, and are read until the next start declares them anew.
    """
    declared = dict(saved.declared_tables)
    for name, one in declared.items():
        private = (now.declared_tables.get(name) or {}).get("private")
        if private:
            declared[name] = {**one, "private": list(dict.fromkeys((*(one.get("private") or ()), *private)))}
    return saved.with_declared(declared)
