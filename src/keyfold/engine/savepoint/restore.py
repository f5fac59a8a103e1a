"""Puts an app back to a savepoint.

The restore is recorded first, in `restoring.json`, and is certain from then on: if the command is killed, the
next command or start finishes it before anything else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.engine.recovery import table_removal
from keyfold.engine.savepoint import verify
from keyfold.engine.savepoint.capture import Progress, captured, flush_directories, forget_sinks, in_parallel
from keyfold.engine.savepoint.manifest import SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import BadOption, KeyfoldError, SavepointUnusable
from keyfold.fault_points import FaultPoint, reached

_INTENT: Final = "restoring.json"


def restore(
    place: AppHome, name: str, tables: Sequence[str], why: str | None, progress: Progress
) -> dict[str, Any]:
    """Puts all tables of an app, or some, back to a savepoint; returns the entry for the audit log.

    The app must be stopped. Without `tables` it is afterwards exactly what it was: tables that it did not
    have then are gone. What it is now becomes a savepoint first, which the entry names as `undo`.
    """
    lease = Lease(place).take()
    try:
        table_removal.finish(place)
        finish(place)
        savepoint = Savepoints(place).find(name)
        _require_app(place, savepoint)
        verify.require_usable(savepoint)
        wanted = _tables(place, savepoint, tables)
        verify.require_whole(savepoint, Savepoints(place).storage(name), progress)
        undo = _saved(place, name, progress)
        entry = _entry(place, savepoint, wanted, savepoint.whole and not tables, why, undo)
        reached(FaultPoint.RESTORE_REQUESTED)
        place.storage.put(_INTENT, json.dumps(entry).encode())
        reached(FaultPoint.RESTORE_RECORDED)
        finish(place)
        return entry
    finally:
        lease.release()


def _saved(place: AppHome, name: str, progress: Progress) -> str | None:
    """Makes a savepoint of what the restore is about to replace, if there is anything."""
    if "app.json" not in place.storage.list():
        return None
    undo = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-before-restore"
    return captured(place, undo, (), f"before the restore of {name}", progress).name


def finish(place: AppHome) -> None:
    """Carries out a recorded restore, if need be again from its start; the caller holds the home."""
    try:
        entry = json.loads(place.storage.read(_INTENT))
    except FileNotFoundError:
        return
    savepoint = Savepoints(place).find(entry["savepoint"])
    for table in entry["removed"]:
        place.storage.delete(f"tables/{table}")
    for table in entry["tables"]:
        place.storage.delete(f"tables/{table}")
        _put_back(place, savepoint, savepoint.of_table(table))
        forget_sinks(place, table)
        reached(FaultPoint.RESTORE_TABLE_DONE, table=table)
    if entry["whole"]:
        place.storage.delete("streams")
        _put_back(place, savepoint, [file for file in savepoint.files if file.path.startswith("streams/")])
    _put_back_views(place, savepoint, entry)
    reached(FaultPoint.RESTORE_VIEW_DONE)
    _put_back_plan(place, savepoint, entry)
    reached(FaultPoint.RESTORE_PLAN_DONE)
    audit.append(place.storage, entry)
    place.storage.delete(_INTENT)


def _put_back(place: AppHome, savepoint: Savepoint, files: Sequence[SavedFile]) -> None:
    source = f"savepoints/{savepoint.name}/{FILES}"
    in_parallel(files, lambda file: place.storage.copy(f"{source}/{file.path}", file.path))
    flush_directories(place.storage, (file.path for file in files))


def _put_back_views(place: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    """The views as they were; of some tables alone they are dropped, and the next start builds them."""
    if not entry["whole"]:
        table_removal.remove_views(place, entry["tables"])
        return
    for suffix in ("-wal", "-shm", ""):
        place.views.with_name(place.views.name + suffix).unlink(missing_ok=True)
    if savepoint.view is not None:
        with Savepoints(place).storage(savepoint.name).fetched(VIEW) as copy:
            replace_file(place.views, copy.read_bytes())


def _put_back_plan(place: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    saved = json.loads(place.storage.read(f"savepoints/{savepoint.name}/{FILES}/app.json"))
    if not entry["whole"]:
        now = place.read_plan() or saved
        tables = {name: saved["tables"][name] for name in entry["tables"] if name in saved["tables"]}
        saved = {**now, "tables": {**now["tables"], **tables}}
    place.write_plan(saved)


def _require_app(place: AppHome, savepoint: Savepoint) -> None:
    if savepoint.app != place.path.name:
        raise SavepointUnusable(
            f"savepoint {savepoint.name} is of app {savepoint.app}, and this is app {place.path.name}",
            given=savepoint.name,
            hint=f"keyfold savepoint clone {savepoint.name} {place.path.name}, into a home without that app",
        )


def _tables(place: AppHome, savepoint: Savepoint, wanted: Sequence[str]) -> list[str]:
    """The tables to put back. One that others read goes with them: their state has its later rows."""
    for table in wanted:
        if table not in savepoint.tables:
            raise BadOption(
                f"savepoint {savepoint.name} has no table {table}",
                given=table,
                hint=f"one of {', '.join(savepoint.tables)}",
            )
    found = list(wanted) or list(savepoint.tables)
    for table in found if wanted or not savepoint.whole else ():
        others = [reader for reader in table_removal.with_readers(place, table)[1:] if reader not in found]
        if others:
            raise BadOption(
                f"{table} is read by {', '.join(others)}, whose state has rows that it has after the restore "
                "not made yet",
                given=", ".join(found),
                hint=f"restore them together: {' '.join([*found, *others])}",
            )
    return found


def _entry(
    place: AppHome, savepoint: Savepoint, tables: list[str], whole: bool, why: str | None, undo: str | None
) -> dict[str, Any]:
    now = table_removal.tables(place)
    batches = {}
    for name in tables:
        with suppress(OSError, KeyfoldError):
            batches[name] = place.table(name).committed()
    return audit.entry(
        "restore",
        why,
        savepoint=savepoint.name,
        tables=tables,
        whole=whole,
        removed=[name for name in now if name not in tables] if whole else [],
        batches=batches,
        restored={name: savepoint.tables[name].batch for name in tables},
        undo=undo,
    )
