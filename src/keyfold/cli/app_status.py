"""How the status of an app is printed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from keyfold.cli import formatting, output
from keyfold.cli.terminal import column_widths, log_lines
from keyfold.read.metrics import LookupStatus, TableStatus
from keyfold.read.status import AppStatus, State, age

# Counting keys takes long in a big view, so it is not done every time.
_OLD_COUNT_SECONDS: Final = 30.0
# The columns that a narrow terminal leaves out, in this order.
_OPTIONAL: Final = ("watermark", "took", "state", "rows/s", "age", "behind")


def show(status: AppStatus) -> None:
    """Prints a line for the app, one for each table, and notes below them."""
    print(f"{status.app} {_headline(status)}; {status.home}")
    rows = [_row(name, table, status) for name, table in status.tables.items()]
    if rows:
        _print(rows)
    for line in _notes(status):
        print(line)


def _headline(status: AppStatus) -> str:
    pid, started, seen = status.pid, formatting.moment(status.started), formatting.moment(status.seen)
    ago = formatting.about(status.age_seconds)
    if status.state == "stopped" and status.seen is None:
        return "has not run yet"
    failed = formatting.moment(status.failures[0].at if status.failures else status.seen)
    texts: dict[State, str] = {
        "running": f"is running, pid {pid}, since {started}; status written {ago} ago",
        "starting": f"is starting, pid {pid}; status of the previous run, written {ago} ago",
        "suspended": f"is suspended, pid {pid}: kill -CONT {pid} resumes it; status of {seen}, {ago} ago",
        "not responding": f"is not responding, pid {pid}, since {seen}, {ago} ago; started {started}",
        "failed": f"is not running: it failed at {failed}; status written {ago} ago",
        "killed": f"is not running: it was killed, last seen at {seen}, {ago} ago; the next start resumes",
        "stopped": f"is not running: stopped at {seen}, {ago} ago",
    }
    return texts[status.state]


def _row(name: str, table: TableStatus, status: AppStatus) -> dict[str, str]:
    row = formatting.status_row(name, table)
    return {
        **row,
        "rows/s": row["rows/s"] if status.state == "running" else formatting.NONE,
        "age": formatting.about(None if table.at is None else age(table.at)),
        "behind": formatting.about(table.lag_seconds),
        "took": formatting.about(None if table.batch_ms is None else table.batch_ms / 1000),
    }


def _print(rows: list[dict[str, str]]) -> None:
    """A line for each table, with as many columns as fit the terminal."""
    known = tuple(dict.fromkeys(column for row in rows for column in row))
    first, *others = column_widths.fitting(known, rows, output.console().width, _OPTIONAL)
    width, gap = column_widths.widths(known, rows), " " * column_widths.GAP
    for cells in (dict(zip(known, known, strict=True)), *rows):
        texts = [cells.get(column, column_widths.ABSENT).rjust(width[column]) for column in others]
        print(gap.join([cells[first].ljust(width[first]), *texts]).rstrip())


def _notes(status: AppStatus) -> Iterator[str]:
    counted = ((name, table.keys_at) for name, table in status.tables.items())
    old = [f"{name} {formatting.about(age(at))} ago" for name, at in counted if at and _old(at, status)]
    if old:
        yield f"keys were counted earlier: {', '.join(old)}"
    if status.problem:
        yield status.problem
    for failure in status.failures:
        where = f"{status.app}.{failure.table}" if failure.table else status.app
        first, *rest = failure.text.splitlines()
        yield "\n".join([f"{where} failed at {formatting.moment(failure.at)}: {first}", *rest])
    yield from log_lines.warnings(status)
    for name, table in status.tables.items():
        for column, since in table.since.items():
            yield log_lines.known_since(f"{name}.{column}", since)
        if table.initial:
            yield f"{name} began with {log_lines.initial_words(table.initial)}"
    for name, stream in status.streams.items():
        yield log_lines.stream_line(name, stream)
    if status.state == "running":
        for name, limit in status.batch_limits.items():
            yield f"a batch reads at most {log_lines.limit_words(limit)} of {name}"
    for name, lookup in status.lookups.items():
        yield _lookup_line(name, lookup)


def _old(counted: datetime, status: AppStatus) -> bool:
    return status.seen is not None and (status.seen - counted).total_seconds() > _OLD_COUNT_SECONDS


def _lookup_line(name: str, lookup: LookupStatus) -> str:
    rows = f"{formatting.count(lookup.rows)} row{'' if lookup.rows == 1 else 's'}"
    line = f"lookup {name}: {rows}, version {lookup.version}, loaded {formatting.moment(lookup.loaded)}"
    return line if lookup.error is None else f"{line}; the last reload failed: {lookup.error}"
