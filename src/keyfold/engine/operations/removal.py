"""Removes tables from a home: `keyfold drop` for good, `keyfold reset` to start from the first row.

The log of a stream goes with the last table that has read it, unless it has history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from keyfold.engine.operations.kinds import REMOVE
from keyfold.engine.storage import audit
from keyfold.engine.storage.contents import home_of, readable_plan, readers, streams, tables
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeUnusable, KeyfoldError
from keyfold.fault_points import FaultPoint, reached

What = Literal["drop", "reset"]


def _abandoned_streams(home: AppHome, names: list[str]) -> list[str]:
    """The streams without history whose logs have no readers once these tables are removed."""
    logs = {name: stream.log for name, stream in readable_plan(home).streams.items()}
    without = [stream for stream in streams(home) if not ((log := logs.get(stream)) and log.history)]
    return [stream for stream in without if (read := set(readers(home, stream))) and read <= set(names)]


def remove(home: AppHome, what: What, names: Iterable[str], why: str | None = None) -> dict[str, Any]:
    """Removes tables; returns the audit entry. The caller holds the home, with nothing left to finish."""
    entry = _entry(home, what, list(names), why)
    reached(FaultPoint.REMOVAL_REQUESTED)
    REMOVE.commit(home, entry)
    reached(FaultPoint.REMOVAL_RECORDED)
    REMOVE.finish(home)
    # A view that can't be removed is not an error: a damaged one is of no use.
    return {**entry, "view": remove_views(home, entry["tables"])}


def carry_out(home: AppHome, entry: dict[str, Any]) -> dict[str, Any]:
    """Removes files, views and definitions; the record is the entry of the audit log."""
    for name in entry["tables"]:
        _remove_files(home, f"tables/{name}")
        reached(FaultPoint.FILES_REMOVED)
    for name in entry.get("streams", ()):
        # The rows of kf.rows are in the same directory, and stay.
        for directory in ("checkpoint", "log"):
            _remove_files(home, f"streams/{name}/{directory}")
        reached(FaultPoint.FILES_REMOVED)
    remove_views(home, entry["tables"])
    reached(FaultPoint.VIEWS_REMOVED)
    _forget(home, entry)
    reached(FaultPoint.DEFINITION_REMOVED)
    return entry


def _entry(home: AppHome, what: What, given: list[str], why: str | None) -> dict[str, Any]:
    known = tables(home)
    names = [name for name in given if name in known]
    logs = [name for name in given if name not in known]
    return audit.entry(
        what,
        why,
        tables=names,
        streams=sorted({*logs, *_abandoned_streams(home, names)}),
        batches={name: home.table(name).committed_batch() for name in names},
        bytes=sum(size(home, name) for name in given),
    )


def size(home: AppHome, name: str) -> int:
    """The bytes of a table, or a stream, in the home, without the view."""
    return home_of(home, name).storage.size()


def _remove_files(home: AppHome, directory: str) -> None:
    path = StoredFile(home.storage, directory)
    try:
        path.delete()
    except OSError as error:
        raise HomeUnusable(
            f"{error.filename or path} can't be removed: {error.strerror}",
            given=path,
            hint="correct that, then start again or repeat the command, which removes what is left",
        ) from None


def remove_views(home: AppHome, names: list[str]) -> str | None:
    """Drops the views of tables; returns the reason if that failed."""
    views = home.views
    if not views.exists():
        return None
    try:
        with views.open(read_only=False) as store:
            for name in names:
                store.drop(name)
    except KeyfoldError as error:
        return str(error)
    return None


def _forget(home: AppHome, entry: dict[str, Any]) -> None:
    """Removes the tables from app.json: a table without an entry starts as a new one."""
    plan = readable_plan(home)
    if not plan.exists:
        return
    gone = entry["tables"]
    plan = plan.with_tables({name: table for name, table in plan.tables.items() if name not in gone})
    if entry["what"] == "drop":
        declared = plan.declared_tables.items()
        plan = plan.with_declared({name: table for name, table in declared if name not in gone})
    home.write_plan(plan)
