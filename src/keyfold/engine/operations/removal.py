"""Removes tables from a home: `keyfold drop` for good, `keyfold reset` to start from the first row.

The log of a stream goes with the last table that has read it, unless it has history.

The removal is recorded first, in `removing.json`, and is certain from then on: if the command is killed, the
next command or start finishes it before anything else. `audit.jsonl` has a line for every removal.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, Literal

from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeUnusable, KeyfoldError
from keyfold.fault_points import FaultPoint, reached

What = Literal["drop", "reset"]
INTENT: Final = "removing.json"


def tables(place: AppHome) -> list[str]:
    """The tables with files in an app's home, whether or not the app still declares them."""
    return sorted(set(place.storage.list("tables")) | set((_plan(place) or {}).get("tables", {})))


def streams(place: AppHome) -> list[str]:
    """The streams that have a log in an app's home."""
    found = place.storage.list("streams")
    return sorted(name for name in found if "checkpoint" in place.stream_home(name).storage.list())


def _abandoned(place: AppHome, names: list[str]) -> list[str]:
    """The streams without history whose logs nobody reads any more, once these tables are gone."""
    known = (_plan(place) or {}).get("streams", {})
    without = [stream for stream in streams(place) if not known.get(stream, {}).get("history")]
    return [stream for stream in without if (read := set(readers(place, stream))) and read <= set(names)]


def readers(place: AppHome, table: str) -> list[str]:
    """The tables that have folded rows of another one, or of a stream's log."""
    return [name for name in place.storage.list("tables") if _reads(place.table(name), table)]


def _reads(home: TableHome, table: str) -> bool:
    inputs = home.storage.list("inputs")
    return any(name.partition("-")[2] == table for name in inputs) and home.begun() is not None


def with_readers(place: AppHome, table: str) -> list[str]:
    """A table, those that read it, those that read these, and so on."""
    found = [table]
    for name in found:
        found += [reader for reader in readers(place, name) if reader not in found]
    return found


def remove(place: AppHome, what: What, names: Iterable[str], why: str | None = None) -> dict[str, Any]:
    """Removes tables; returns the audit entry. The caller holds the home, and has nothing left to finish."""
    entry = _entry(place, what, list(names), why)
    reached(FaultPoint.REMOVAL_REQUESTED)
    intents.record(place.storage, INTENT, entry)
    reached(FaultPoint.REMOVAL_RECORDED)
    return {**entry, "view": finish(place)}


def finish(place: AppHome) -> str | None:
    """Carries out a recorded removal, if need be again from its start; the caller holds the home.

    Returns why the view could not be removed; that is no error, since a damaged view is of no use.
    """
    entry = intents.recorded(place.storage, INTENT)
    if entry is None:
        return None
    audit.append(place.storage, entry)
    reached(FaultPoint.REMOVAL_AUDITED)
    for name in entry["tables"]:
        _remove_files(place, f"tables/{name}")
        reached(FaultPoint.FILES_REMOVED)
    for name in entry.get("streams", ()):
        # The rows of kf.rows are in the same directory, and stay.
        for directory in ("checkpoint", "log"):
            _remove_files(place, f"streams/{name}/{directory}")
        reached(FaultPoint.FILES_REMOVED)
    view = remove_views(place, entry["tables"])
    reached(FaultPoint.VIEWS_REMOVED)
    _forget(place, entry)
    reached(FaultPoint.DEFINITION_REMOVED)
    place.storage.delete(INTENT)
    return view


def _entry(place: AppHome, what: What, given: list[str], why: str | None) -> dict[str, Any]:
    known = tables(place)
    names = [name for name in given if name in known]
    logs = [name for name in given if name not in known]
    return audit.entry(
        what,
        why,
        tables=names,
        streams=sorted({*logs, *_abandoned(place, names)}),
        batches={name: place.table(name).committed() for name in names},
        bytes=sum(size(place, name) for name in given),
    )


def size(place: AppHome, name: str) -> int:
    """The bytes that a table, or a stream, has in the home, without the view."""
    return home_of(place, name).storage.size()


def home_of(place: AppHome, name: str) -> TableHome:
    """The home of a table, or of a stream that has a log."""
    return place.table(name) if name in tables(place) else place.stream_home(name)


def _remove_files(place: AppHome, directory: str) -> None:
    path = StoredFile(place.storage, directory)
    try:
        path.delete()
    except OSError as error:
        raise HomeUnusable(
            f"{error.filename or path} can't be removed: {error.strerror}",
            given=path,
            hint="correct that, then start again or repeat the command, which removes what is left",
        ) from None


def remove_views(place: AppHome, names: list[str]) -> str | None:
    from keyfold.views.stores import open_store

    if not place.views.exists():
        return None
    try:
        store = open_store(place.views, read_only=False)
        try:
            for name in names:
                store.drop(name)
        finally:
            store.close()
    except KeyfoldError as error:
        return str(error)
    return None


def _forget(place: AppHome, entry: dict[str, Any]) -> None:
    """Removes the tables from app.json: a table without an entry starts as a new one."""
    plan = _plan(place)
    if plan is None:
        return
    plan["tables"] = {name: t for name, t in plan.get("tables", {}).items() if name not in entry["tables"]}
    declared = plan.get("declared")
    if entry["what"] == "drop" and declared:
        declared["tables"] = [t for t in declared.get("tables", ()) if t["name"] not in entry["tables"]]
    place.write_plan(plan)


def _plan(place: AppHome) -> dict[str, Any] | None:
    """app.json, if it can be read; a damaged one does not keep a table from being removed."""
    with suppress(HomeUnusable):
        return place.read_plan()
    return None
