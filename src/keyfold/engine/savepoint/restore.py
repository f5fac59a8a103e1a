"""Restores an app from a savepoint: checks that this is possible, and records it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import RESTORE
from keyfold.engine.savepoint import restoration, verify
from keyfold.engine.savepoint.capture import Progress, capture, name_before
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit, contents
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, KeyfoldError, SavepointUnusable, choice
from keyfold.fault_points import FaultPoint, reached


def restore(
    home: AppHome, name: str, tables: Sequence[str], why: str | None, progress: Progress
) -> dict[str, Any]:
    """Restores all tables of an app, or some, from a savepoint; returns the entry for the audit log.

    The app must be stopped. Without `tables` the whole app is restored: tables that it did not have at that
    time are removed. A savepoint of the present app is made first, which the entry names as `undo`.
    """
    with unfinished.held(home):
        savepoint = Savepoints(home).find(name)
        _require_app(home, savepoint)
        verify.require_usable(savepoint)
        wanted = _tables(home, savepoint, tables)
        verify.require_whole(savepoint, Savepoints(home).storage(name), progress)
        undo = _save_replaced(home, name, progress)
        entry = _entry(home, savepoint, wanted, savepoint.whole and not tables, why, undo)
        reached(FaultPoint.RESTORE_REQUESTED)
        restoration.commit(home, savepoint, entry)
        reached(FaultPoint.RESTORE_RECORDED)
        RESTORE.finish(home)
        return entry


def _save_replaced(home: AppHome, name: str, progress: Progress) -> str | None:
    """Makes a savepoint of what the restore is about to replace, if there is anything."""
    if "app.json" not in home.storage.list():
        return None
    return capture(home, name_before("restore"), (), f"before the restore of {name}", progress).name


def _require_app(home: AppHome, savepoint: Savepoint) -> None:
    if savepoint.app != home.path.name:
        raise SavepointUnusable(
            f"savepoint {savepoint.name} is of app {savepoint.app}, and this is app {home.path.name}",
            given=savepoint.name,
            hint=f"keyfold savepoint clone {savepoint.name} {home.path.name}, into a home without that app",
        )


def _tables(home: AppHome, savepoint: Savepoint, wanted: Sequence[str]) -> list[str]:
    """The tables to restore. One with readers brings these along, since their state has its later rows."""
    for table in wanted:
        if table not in savepoint.tables:
            raise BadOption(
                f"savepoint {savepoint.name} has no table {table}",
                given=table,
                hint=choice(savepoint.tables),
            )
    found = list(wanted) or list(savepoint.tables)
    for table in found if wanted or not savepoint.whole else ():
        others = [reader for reader in contents.with_readers(home, table)[1:] if reader not in found]
        if others:
            raise BadOption(
                f"{table} is read by {', '.join(others)}, whose state contains later rows of it",
                given=", ".join(found),
                hint=f"restore them together: {' '.join([*found, *others])}",
            )
    return found


def _entry(
    home: AppHome, savepoint: Savepoint, tables: list[str], whole: bool, why: str | None, undo: str | None
) -> dict[str, Any]:
    now = contents.tables(home)
    batches = {}
    for name in tables:
        with suppress(OSError, KeyfoldError):
            batches[name] = home.table(name).committed_batch()
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
