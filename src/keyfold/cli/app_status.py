"""The status of an app, from its status file and its process, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from keyfold.cli import formatting, output
from keyfold.cli.home_reader import view_facts
from keyfold.cli.terminal import column_widths, log_lines
from keyfold.engine.storage.known_since import known_since

if TYPE_CHECKING:
    from keyfold.engine.storage.layout import AppHome
    from keyfold.engine.storage.lease_files import LeaseRecord

State = Literal["running", "starting", "suspended", "not responding", "failed", "killed", "stopped"]

# A running app writes its status every second; a batch that takes all cores may delay that.
_SILENT_SECONDS: Final = 10.0
# Counting keys takes long in a big view, so it is not done every time.
_OLD_COUNT_SECONDS: Final = 30.0
# The columns that a narrow terminal leaves out, in this order.
_OPTIONAL: Final = ("watermark", "took", "state", "rows/s", "age", "behind")


def status(home: AppHome) -> dict[str, Any]:
    """The last status that the app wrote, and whether it still holds."""
    from keyfold.engine.operations import removal as table_removal
    from keyfold.engine.storage.lease import current

    lease = current(home)
    pid = None if lease is None else int(lease.python["pid"])
    written = _written(home)
    plan = home.read_plan()
    # Without app.json: the tables that have files on disk.
    names = table_removal.tables(home) if plan is None else plan.get("tables", {})
    tables = {name: written["tables"].get(name) or view_facts(home, name) for name in names}
    seen = _time(written.get("at"))
    state = _state(lease, written, any(table.get("running") for table in tables.values()))
    return {
        "app": home.path.name,
        "home": str(home.path),
        "state": state,
        "running": pid is not None,
        "pid": pid,
        "started": written.get("started"),
        "seen": written.get("at"),
        "age_seconds": None if seen is None else _age(seen),
        "ended": None if pid is not None else state,
        "failures": written.get("failures", []) if state != "starting" else [],
        "lookups": written.get("lookups", {}),
        "streams": {
            name: {**stream, "running": pid is not None and bool(stream.get("running"))}
            for name, stream in written.get("streams", {}).items()
        },
        "batch_limits": written.get("batch_limits", {}),
        "tables": {
            name: {
                **table,
                "running": pid is not None and bool(table.get("running")),
                **_recorded(plan, name),
            }
            for name, table in tables.items()
        },
    }


def _recorded(plan: Mapping[str, Any] | None, table: str) -> dict[str, Any]:
    """Since when added columns cover rows, and what the table began with, if not with its stream."""
    since = {name: one.document() for name, one in known_since(plan, table).items()}
    began = (((plan or {}).get("tables") or {}).get(table) or {}).get("initial")
    return {**({"since": since} if since else {}), **({"initial": began} if began else {})}


def _written(home: AppHome) -> dict[str, Any]:
    return {"tables": {}, **home.read_status()}


def _state(lease: LeaseRecord | None, written: Mapping[str, Any], was_running: bool) -> State:
    if lease is None:
        return "failed" if written.get("failures") else "killed" if was_running else "stopped"
    if _suspended(int(lease.python["pid"])):
        return "suspended"
    seen = _time(written.get("at"))
    # The lease is taken when a start begins, the first status is written when it is complete.
    if seen is None or seen < datetime.fromisoformat(lease.since):
        return "starting"
    return "not responding" if _age(seen) > _SILENT_SECONDS else "running"


def _suspended(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def show(status: dict[str, Any]) -> None:
    """Prints a line for the app, one for each table, and notes below them."""
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
    if status["state"] == "stopped" and status["seen"] is None:
        return "has not run yet"
    failed = formatting.moment((status["failures"] or [{"at": status["seen"]}])[0]["at"])
    texts: dict[State, str] = {
        "running": f"is running, pid {pid}, since {started}; status written {age} ago",
        "starting": f"is starting, pid {pid}; status of the previous run, written {age} ago",
        "suspended": f"is suspended, pid {pid}: kill -CONT {pid} resumes it; status of {seen}, {age} ago",
        "not responding": f"is not responding, pid {pid}, since {seen}, {age} ago; started {started}",
        "failed": f"is not running: it failed at {failed}; status written {age} ago",
        "killed": f"is not running: it was killed, last seen at {seen}, {age} ago; the next start resumes",
        "stopped": f"is not running: stopped at {seen}, {age} ago",
    }
    return texts[status["state"]]


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
    """A line for each table, with as many columns as fit the terminal."""
    known = tuple(dict.fromkeys(column for row in rows for column in row))
    first, *others = column_widths.fitting(known, rows, output.console().width, _OPTIONAL)
    width, gap = column_widths.widths(known, rows), " " * column_widths.GAP
    for cells in (dict(zip(known, known, strict=True)), *rows):
        texts = [cells.get(column, column_widths.ABSENT).rjust(width[column]) for column in others]
        print(gap.join([cells[first].ljust(width[first]), *texts]).rstrip())


def _notes(status: dict[str, Any]) -> Iterator[str]:
    counted = {name: _time(table.get("keys_at")) for name, table in status["tables"].items()}
    old = [
        f"{name} {formatting.about(_age(at))} ago" for name, at in counted.items() if at and _old(at, status)
    ]
    if old:
        yield f"keys were counted earlier: {', '.join(old)}"
    for failure in status["failures"]:
        where = f"{status['app']}.{failure['table']}" if failure["table"] else status["app"]
        first, *rest = failure["text"].splitlines()
        yield "\n".join([f"{where} failed at {formatting.moment(failure['at'])}: {first}", *rest])
    yield from log_lines.warnings(status)
    for name, table in status["tables"].items():
        for column, since in table.get("since", {}).items():
            yield log_lines.known_since(f"{name}.{column}", since)
        if table.get("initial"):
            yield f"{name} began with {log_lines.initial_words(table['initial'])}"
    for name, stream in status["streams"].items():
        yield log_lines.stream_line(name, stream)
    if status["state"] == "running":
        for name, limit in status["batch_limits"].items():
            yield f"a batch reads at most {log_lines.limit_words(limit)} of {name}"
    for name, lookup in status["lookups"].items():
        yield _lookup_line(name, lookup)


def _old(counted: datetime, status: dict[str, Any]) -> bool:
    seen = _time(status["seen"])
    return seen is not None and (seen - counted).total_seconds() > _OLD_COUNT_SECONDS


def _lookup_line(name: str, lookup: dict[str, Any]) -> str:
    rows = f"{formatting.count(lookup['rows'])} row{'' if lookup['rows'] == 1 else 's'}"
    line = f"lookup {name}: {rows}, version {lookup['version']}, loaded {formatting.moment(lookup['loaded'])}"
    return line if lookup["error"] is None else f"{line}; the last reload failed: {lookup['error']}"


def _time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def _age(at: datetime) -> float:
    return max(0.0, (datetime.now(UTC) - at).total_seconds())
