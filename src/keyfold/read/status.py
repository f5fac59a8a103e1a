"""The status of an app: what it published last, whether that still holds, and what its home records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import current
from keyfold.engine.storage.lease_files import LeaseRecord
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.errors import QueryError
from keyfold.read.documents import Document
from keyfold.read.metrics import Failure, LookupStatus, RunStatus, StreamStatus, TableStatus, read_status
from keyfold.views.contract import NoViewsYet, ViewStore

State = Literal["running", "starting", "suspended", "not responding", "failed", "killed", "stopped"]

# A running app writes its status every second; a batch that takes all cores may delay that.
_SILENT_SECONDS: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class AppStatus(Document):
    """The last status that an app wrote, and whether it still holds."""

    app: str
    home: str
    state: State
    running: bool
    pid: int | None
    started: datetime | None
    seen: datetime | None
    age_seconds: float | None
    ended: State | None
    failures: list[Failure]
    lookups: Mapping[str, LookupStatus]
    streams: Mapping[str, StreamStatus]
    batch_limits: Mapping[str, Mapping[str, int]]
    tables: Mapping[str, TableStatus]
    problem: str | None = None
    """Why the views of tables without a status can't be read."""


def status(home: AppHome, views: ViewStore | None) -> AppStatus:
    """The status of an app, from its status file and its process; tables without one have that of `views`."""
    lease = current(home)
    pid = None if lease is None else int(lease.python["pid"])
    written, known = read_status(home), home.read_plan()
    # Without app.json: the tables that have files on disk.
    names = known.tables if known.exists else contents.tables(home)
    without, problem = _of_views(views, [name for name in names if name not in written.tables])
    found = {name: written.tables.get(name) or without[name] for name in names}
    state = _state(lease, written, any(table.running for table in found.values()))
    runs = pid is not None
    return AppStatus(
        app=home.path.name,
        home=str(home.path),
        state=state,
        running=runs,
        pid=pid,
        started=written.started,
        seen=written.at,
        age_seconds=None if written.at is None else age(written.at),
        ended=None if runs else state,
        failures=written.failures if state != "starting" else [],
        lookups=written.lookups,
        streams={n: one.replace(running=runs and one.running) for n, one in written.streams.items()},
        batch_limits=written.batch_limits,
        tables={name: _with_records(table, runs, known.table(name)) for name, table in found.items()},
        problem=problem,
    )


def age(at: datetime) -> float:
    """How many seconds ago a time was."""
    return max(0.0, (datetime.now(UTC) - at).total_seconds())


def _of_views(views: ViewStore | None, tables: Sequence[str]) -> tuple[dict[str, TableStatus], str | None]:
    """What the views say of tables without status, and why they do not say it of all."""
    found, problem = dict.fromkeys(tables, TableStatus.read({})), None
    for table in tables:
        if views is None:
            break
        try:
            position, keys = views.position(table), views.count(table)
        except QueryError as error:
            if error.reason == "not_found":
                continue
            problem = None if isinstance(error, NoViewsYet) else str(error)
            # Nor will it answer for the others, and each attempt takes seconds.
            break
        known = {"batch": position.batch, "at": position.at.isoformat()} if position else {"batch": None}
        found[table] = TableStatus.read({**known, "keys": keys})
    return found, problem


def _with_records(table: TableStatus, runs: bool, stored: StoredTable) -> TableStatus:
    found: dict[str, Any] = {column: one.document() for column, one in stored.since.items()}
    return table.replace(running=runs and table.running, since=found, initial=stored.initial)


def _state(lease: LeaseRecord | None, written: RunStatus, was_running: bool) -> State:
    if lease is None:
        return "failed" if written.failures else "killed" if was_running else "stopped"
    if _is_suspended(int(lease.python["pid"])):
        return "suspended"
    # The lease is taken when a start begins, the first status is written when it is complete.
    if written.at is None or written.at < datetime.fromisoformat(lease.since):
        return "starting"
    return "not responding" if age(written.at) > _SILENT_SECONDS else "running"


def _is_suspended(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False
