"""How an app is, from what it wrote last and what can be seen of it now; and that in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from keyfold.cli import formatting, log_lines, output

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome

State = Literal["running", "starting", "suspended", "not responding", "failed", "killed", "stopped"]

# A running app writes its figures every second; a batch that takes all of the machine may delay that.
_SILENT_SECONDS: Final = 10.0
# Counting keys takes long in a big view, and so is not done every time.
_OLD_COUNT_SECONDS: Final = 30.0
# What a narrow terminal leaves out, first to last.
_LEAST: Final = ("watermark", "took", "state", "rows/s", "age", "behind")
_GAP: Final = "  "


def status(place: AppHome) -> dict[str, Any]:
    """The app's last figures, and whether they still hold."""
    from keyfold.engine.recovery import table_removal
    from keyfold.engine.storage.lease import holder

    pid = holder(place)
    written = _written(place)
    plan = place.read_plan()
    # Without app.json what has left something on disk is shown.
    names = table_removal.tables(place) if plan is None else plan.get("tables", {})
    tables = {name: written["tables"].get(name) or _left(place, name) for name in names}
    seen = _time(written.get("at"))
    state = _state(place, pid, written, any(table.get("running") for table in tables.values()))
    return {
        "app": place.path.name,
        "home": str(place.path),
        "state": state,
        "running": pid is not None,
        "pid": pid,
        "started": written.get("started"),
        "seen": written.get("at"),
        "age_seconds": None if seen is None else _age(seen),
        "ended": None if pid is not None else state,
        "failures": written.get("failures", []) if state != "starting" else [],
        "lookups": written.get("lookups", {}),
        "tables": {
            name: {**table, "running": pid is not None and bool(table.get("running"))}
            for name, table in tables.items()
        },
    }


def _written(place: AppHome) -> dict[str, Any]:
    return {"tables": {}, **place.read_status()}


def _state(place: AppHome, pid: int | None, written: Mapping[str, Any], was_running: bool) -> State:
    if pid is None:
        return "failed" if written.get("failures") else "killed" if was_running else "stopped"
    if _suspended(pid):
        return "suspended"
    seen = _time(written.get("at"))
    # The lock is written when a start begins, and the first figures when it is done.
    if seen is None or seen.timestamp() < place.lock.stat().st_mtime:
        return "starting"
    return "not responding" if _age(seen) > _SILENT_SECONDS else "running"


def _suspended(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _left(place: AppHome, table: str) -> dict[str, Any]:
    """What a table that no run has spoken of left in its view, such as one that the app no longer has."""
    from keyfold.errors import QueryError
    from keyfold.views.reader import open_store

    try:
        store = open_store(place.views, read_only=True)
        try:
            position = store.position(table)
            return {"batch": position.batch if position else None, "keys": store.count(table)}
        finally:
            store.close()
    except QueryError:
        return {}


def show(status: dict[str, Any]) -> None:
    """A line on the app, one for each table, and below them what else is to be said."""
    print(f"{status['app']} {_headline(status)}; {status['home']}")
    rows = [_row(name, table, status) for name, table in status["tables"].items()]
    if rows:
        _print(rows)
    for line in _notes(status):
        print(line)


def _headline(status: dict[str, Any]) -> str:
    pid, started, seen = (
        status["pid"],
        formatting.moment(status["started"]),
        formatting.moment(status["seen"]),
    )
    age = formatting.about(status["age_seconds"])
    failures = status["failures"] or [{"at": status["seen"]}]
    words: dict[State, str] = {
        "running": f"runs, pid {pid}, since {started}; figures of {age} ago",
        "starting": f"is starting, pid {pid}; the figures are of the run before, {age} ago",
        "suspended": f"is suspended, pid {pid}: kill -CONT {pid} lets it go on; figures of {seen}, {age} ago",
        "not responding": f"does not respond, pid {pid}, since {seen}, {age} ago; it started {started}",
        "failed": f"does not run; it failed at {formatting.moment(failures[0]['at'])}, figures of {age} ago",
        "killed": f"does not run; it was killed, last seen at {seen}, {age} ago, and goes on with the next "
        "start",
        "stopped": f"does not run; stopped at {seen}, {age} ago",
    }
    return words[status["state"]]


def _row(name: str, table: dict[str, Any], status: dict[str, Any]) -> dict[str, str]:
    row = formatting.status_row(name, table)
    at = _time(table.get("at"))
    return {
        **row,
        "rows/s": row["rows/s"] if status["state"] == "running" else formatting.NONE,
        "age": formatting.about(None if at is None else _age(at)),
        "behind": formatting.about(table.get("lag_seconds")),
        "took": formatting.about(None if table.get("batch_ms") is None else table["batch_ms"] / 1000),
    }


def _print(rows: list[dict[str, str]]) -> None:
    """A line for each table, with as many columns as the terminal has room for."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    width = {c: max(len(c), *(len(row.get(c, "0")) for row in rows)) for c in columns}
    room = output.console().width
    for column in _LEAST:
        if sum(width[c] for c in columns) + len(_GAP) * (len(columns) - 1) > room:
            columns.remove(column)
    for cells in (dict(zip(columns, columns, strict=True)), *rows):
        texts = [cells.get(column, "0").rjust(width[column]) for column in columns[1:]]
        print(_GAP.join([cells[columns[0]].ljust(width[columns[0]]), *texts]).rstrip())


def _notes(status: dict[str, Any]) -> Iterator[str]:
    counted = {name: _time(table.get("keys_at")) for name, table in status["tables"].items()}
    old = [
        f"{name} {formatting.about(_age(at))} ago" for name, at in counted.items() if at and _old(at, status)
    ]
    if old:
        yield f"keys were counted earlier than the rest: {', '.join(old)}"
    for failure in status["failures"]:
        where = f"{status['app']}.{failure['table']}" if failure["table"] else status["app"]
        first, *rest = failure["text"].splitlines()
        yield "\n".join([f"{where} failed at {formatting.moment(failure['at'])}: {first}", *rest])
    for name, table in status["tables"].items():
        if table.get("rejecting"):
            yield log_lines.rejecting(f"{status['app']}.{name}", table["rejecting"])
    for name, lookup in status["lookups"].items():
        yield _lookup_line(name, lookup)


def _old(counted: datetime, status: dict[str, Any]) -> bool:
    seen = _time(status["seen"])
    return seen is not None and (seen - counted).total_seconds() > _OLD_COUNT_SECONDS


def _lookup_line(name: str, lookup: dict[str, Any]) -> str:
    rows = f"{formatting.count(lookup['rows'])} row{'' if lookup['rows'] == 1 else 's'}"
    line = f"lookup {name}: {rows}, version {lookup['version']}, loaded {formatting.moment(lookup['loaded'])}"
    return line if lookup["error"] is None else f"{line}; a newer one is not used: {lookup['error']}"


def _time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _age(at: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - at).total_seconds())
