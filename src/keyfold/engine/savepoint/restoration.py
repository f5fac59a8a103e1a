"""Carries out a restore that is recorded in `restoring.json`.

It is certain from then on: if the command is killed, the next command or start finishes it before anything
else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from keyfold.engine.operations import removal as table_removal
from keyfold.engine.savepoint.capture import copy_files, forget_sinks
from keyfold.engine.savepoint.manifest import FILE as MANIFEST
from keyfold.engine.savepoint.manifest import SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.files import replace_file
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import FaultPoint, reached

INTENT: Final = "restoring.json"


def record(place: AppHome, savepoint: Savepoint, entry: dict[str, Any]) -> None:
    """Makes a restore certain."""
    files = [MANIFEST, *([] if savepoint.view is None else [VIEW])]
    files += [f"{FILES}/{file.path}" for file in savepoint.files]
    intents.record(place.storage, INTENT, entry, f"savepoints/{savepoint.name}", files)


def finish(place: AppHome) -> None:
    """Carries out a recorded restore, if need be again from its start; the caller holds the home."""
    entry = intents.begun(place, INTENT, "savepoints")
    if entry is None:
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
    place.storage.delete(INTENT)


def _put_back(place: AppHome, savepoint: Savepoint, files: Sequence[SavedFile]) -> None:
    source = f"savepoints/{savepoint.name}/{FILES}/"
    copy_files(place.storage, [file.path for file in files], source, "")


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
        declared = _declared(now, saved, entry["tables"])
        saved = {**now, "tables": {**now["tables"], **tables}, "declared": declared}
    place.write_plan(saved)


def _declared(now: dict[str, Any], saved: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
    """The declaration, in which tables that were put back are as they were: it says whose their sinks are."""
    found = {one["name"]: one for one in now["declared"]["tables"]}
    found |= {one["name"]: one for one in saved["declared"]["tables"] if one["name"] in tables}
    return {**now["declared"], "tables": list(found.values())}
