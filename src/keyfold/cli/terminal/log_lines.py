"""The progress of a run as log lines, and its result as a table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli import formatting, output
from keyfold.read.metrics import Rejecting, RunStatus, StreamStatus, TableStatus

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle
    from keyfold.read import AppReader
    from keyfold.read.status import AppStatus

_LINE_SECONDS: Final = 10.0


class Lines:
    """Logs a line for each table with new batches, every few seconds."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._next = time.monotonic() + _LINE_SECONDS
        self._last_batch: dict[str, int | None] | None = None
        self._warned: dict[str, int | None] = {}

    def tell(self) -> None:
        """Logs the tables with new batches, if the time has come."""
        if self._last_batch is None:
            # The batch of an earlier run is not new, and its duration and throughput are not known.
            queries = _queries(RunStatus.read(self._handle.status()))
            self._last_batch = {name: found.batch for name, found, _ in queries if not found.rows}
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LINE_SECONDS
        for name, found, line in _queries(RunStatus.read(self._handle.status())):
            # A view may be at a batch that Spark has not reported yet.
            if found.batch != self._last_batch.get(name) and found.batch_ms is not None:
                self._last_batch[name] = found.batch
                output.say(line)
                self._warn(name, found)

    def _warn(self, name: str, found: TableStatus | StreamStatus) -> None:
        if found.rejecting is not None and found.rejecting.batch != self._warned.get(name):
            self._warned[name] = found.rejecting.batch
            output.say(rejecting(f"{self._handle.spec.name}.{name}", found.rejecting))


def _queries(status: RunStatus) -> Iterator[tuple[str, TableStatus | StreamStatus, str]]:
    """The streams and tables of a status, each with its line."""
    yield from ((name, found, stream_line(name, found)) for name, found in status.streams.items())
    yield from ((name, found, line(name, found)) for name, found in status.tables.items())


def rejecting(table: str, found: Rejecting) -> str:
    """The warning that nearly all rows of a batch were rejected."""
    return (
        f"WARNING: {table} rejected {found.share:.0%} of the rows of batch {found.batch} "
        f"({found.rejected:,}): {found.reason} (keyfold side show rejected {table})"
    )


def dropping(table: str, partials: int) -> str:
    """The warning that a pattern's limit has dropped partial matches."""
    return (
        f"WARNING: {table} has dropped {partials:,} partial {'match' if partials == 1 else 'matches'} beyond "
        "limit=, so matches may be missing: make the pattern narrower, or the limit higher"
    )


def warnings(status: RunStatus | AppStatus) -> Iterator[str]:
    """Warnings of tables that rejected nearly all rows of a batch, or dropped partial matches."""
    queries: list[tuple[str, TableStatus | StreamStatus]] = [*status.streams.items(), *status.tables.items()]
    for name, found in queries:
        if found.rejecting is not None:
            yield rejecting(f"{status.app}.{name}", found.rejecting)
        if isinstance(found, TableStatus) and found.dropped_partials:
            yield dropping(f"{status.app}.{name}", found.dropped_partials)


def warn(status: RunStatus) -> bool:
    """Says these warnings; whether the run rejected every row."""
    for line in warnings(status):
        output.say(line)
    # Tables that read logs have no rows if those have none; what a stream records, tables may reject.
    busy = _busy(status.tables) or _busy(status.streams)
    return bool(busy) and all(found.all_rejected for found in busy)


def _busy(queries: Mapping[str, TableStatus | StreamStatus]) -> list[TableStatus | StreamStatus]:
    return [found for found in queries.values() if found.rows or found.all_rejected]


def stream_line(name: str, stream: StreamStatus) -> str:
    """The status of a stream that has a log as one line."""
    left = stream.files_left
    return (
        f"stream {name}: batch {formatting.count(stream.batch)}, "
        f"{formatting.count(stream.recorded)} rows recorded, {formatting.count(stream.rejected)} rejected"
        + (f", {formatting.count(left)} files left" if left else "")
    )


def line(name: str, table: TableStatus) -> str:
    """The status of a table as one log line."""
    row = formatting.status_row(name, table)
    dropped = "".join(
        f", {row[name]} {name.replace('_', ' ')}" for name in formatting.SOMETIMES if name in row
    )
    watermark = f", watermark {row['watermark']}" if table.watermark else ""
    left = _describe_remaining(table)
    return (
        f"{name}: batch {row['batch']} in {row['took']}, {row['rows/s']} rows/s, {row['keys']} keys, "
        f"state {row['state']}{watermark}, {row['late']} late, {row['rejected']} rejected{dropped}{left}"
    )


def _describe_remaining(table: TableStatus) -> str:
    """How much of the input is done, or how many messages of topics are left, as far as that is known."""
    if table.messages_left:
        return f", {formatting.count(table.messages_left)} messages left"
    # Without files, `done` is of the running batch alone, which is the next one.
    if table.files_left is None or table.done is None or table.done >= 1:
        return ""
    return f", {table.done:.0%} done"


def show(status: RunStatus) -> None:
    """The final status of a run, as a table on stdout."""
    tables = status.tables.values()
    sometimes = [name for name in formatting.SOMETIMES if any(getattr(table, name) for table in tables)]
    columns = ("table", "batch", "rows", "keys", "late", "rejected", *sometimes)
    rows = []
    for name, table in status.tables.items():
        found = [getattr(table, column) for column in columns[1:]]
        rows.append([f"{status.app}.{name}", *(formatting.NONE if v is None else v for v in found)])
    output.table(columns, rows, right=columns[1:])
    for name, stream in status.streams.items():
        if stream.rejected:
            output.say(stream_line(f"{status.app}.{name}", stream))


def known_since(column: str, since: Mapping[str, Any]) -> str:
    """Since when a column covers rows."""
    after = "" if since["batch"] is None else f", after batch {since['batch']:,}"
    return f"{column} covers rows since {formatting.moment(since['at'])}{after}"


def say_known_since(app: AppReader, table: str) -> None:
    """Says below rows which of their columns don't know of all rows."""
    for column, since in app.known_since(table).items():
        output.say(known_since(column, since.document()))


def initial_words(began: Mapping[str, Any]) -> str:
    """What a table began with, as app.json records it."""
    if "rows" not in began:
        return f"the state of {began['of']} in savepoint {began['savepoint']}, at batch {began['batch']}"
    some = f"{began['rows']:,} rows of {began['declared']}"
    if began["first"] is None:
        return some
    return f"{some}, from {formatting.moment(began['first'])} to {formatting.moment(began['last'])}"


def limit_words(limit: Mapping[str, int]) -> str:
    """How much a batch reads at most."""
    files = [f"{formatting.count(limit['files'])} files"] if "files" in limit else []
    return " or ".join([*files, *([formatting.size(limit["bytes"])] if "bytes" in limit else [])])
