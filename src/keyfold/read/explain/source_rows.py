"""The rows of a key in some batches of the log of a stream or a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import OP, PREVIOUS, visible
from keyfold.engine.log.key_text import is_value, matching
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import QueryError
from keyfold.read.explain.batches_read import BatchesRead
from keyfold.read.explain.lineage import Read

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SEARCHED: Final = 2_000_000
"""How many rows are searched for those of one key."""


@dataclass(frozen=True)
class SourceRow:
    """A row that a batch of a table has read."""

    batch: int
    """The batch of the stream's log, or of the table's."""
    op: str | None
    """Of a change of a table: upsert, final or delete."""
    row: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    """The row before a change of a table; it may have been of the key, and the row after it no longer is."""

    def document(self) -> dict[str, Any]:
        """The fields by name."""
        return {"batch": self.batch, "op": self.op, "row": self.row, "before": self.before}


def rows_of_key(
    log: TableLog,
    batches: BatchesRead,
    read: Read,
    expressions: Mapping[str, str],
    key: Sequence[str],
    time: str | None,
    most: int,
) -> tuple[list[SourceRow], bool]:
    """The rows of a key in order, and whether there are more.

    `expressions`: the key's parts without its window's bounds, which then are its last two values, and are
    compared with the stream's column `time`.
    """
    wanted = [(read.column(text), value) for text, value in zip(expressions.values(), key, strict=False)]
    window = tuple(key[len(expressions) :]) if time is not None else ()
    found: list[SourceRow] = []
    searched = 0
    for manifest in _manifests(log, batches):
        searched += manifest.counts["change"]
        if searched > MOST_SEARCHED:
            raise QueryError(f"the batch has read more than {MOST_SEARCHED:,} rows, which are not searched")
        for row in _rows(log, manifest, wanted, expressions, window, time):
            if len(found) == most:
                return found, True
            found.append(row)
    return found, False


def _manifests(log: TableLog, batches: BatchesRead) -> Iterator[Manifest]:
    if batches.first is None or batches.last is None or batches.last < batches.first:
        return
    hint = "history= keeps rows in a log for longer"
    if totals(log).upto >= batches.first:
        raise QueryError("the rows have left the log, since everybody has read them", hint=hint)
    for manifest in log.after(batches.first - 1):
        if manifest.batch > batches.last:
            return
        if not manifest.has_its_changes:
            raise QueryError(f"the rows of batch {manifest.batch} have left the log", hint=hint)
        yield manifest


def _rows(
    log: TableLog,
    manifest: Manifest,
    wanted: Sequence[tuple[str | None, str]],
    expressions: Mapping[str, str],
    window: tuple[str, ...],
    time: str | None,
) -> Iterator[SourceRow]:
    for part in manifest.of_kind("change"):
        names = log.schema(part).names
        shown = [name for name in visible(names) if name != OP]
        by_lower = {name.lower(): name for name in shown}
        columns = [by_lower.get((column or "").lower()) for column, _ in wanted]
        if not all(columns):
            computed = next(
                text for text, one in zip(expressions.values(), columns, strict=False) if one is None
            )
            raise QueryError(f"its rows have no column {computed} by which those of the key can be told")
        read = [name for name in (OP, PREVIOUS) if name in names] + shown
        own = [str(one) for one in columns], [value for _, value in wanted]
        for found in log.part_rows(part, read):
            yield from _source_rows(
                manifest, _of_key(found, *own), by_lower.get((time or "").lower()), window
            )


def _of_key(found: pa.RecordBatch, names: Sequence[str], key: Sequence[str]) -> pa.RecordBatch:
    """The rows of a key; of a table's changes also those of which the row before was of the key."""
    import pyarrow as pa

    if PREVIOUS not in found.schema.names:
        return matching(found, names, key)
    now, before = found.select(list(names)).to_pylist(), found.column(PREVIOUS).to_pylist()
    # The row before may lack the upstream key, which is that of the change.
    old = [None if one is None else {**row, **one} for row, one in zip(now, before, strict=True)]

    def has_key(row: Mapping[str, Any] | None) -> bool:
        return row is not None and all(is_value(row[n], v) for n, v in zip(names, key, strict=True))

    return found.filter(pa.array([has_key(a) or has_key(b) for a, b in zip(now, old, strict=True)]))


def _source_rows(
    manifest: Manifest, found: pa.RecordBatch, time: str | None, window: tuple[str, ...]
) -> Iterator[SourceRow]:
    bounds = [_moment(datetime.fromisoformat(text)) for text in window] if time is not None else []
    for row in found.to_pylist():
        at = None if time is None else row.get(time)
        if bounds and isinstance(at, datetime) and not bounds[0] <= _moment(at) < bounds[1]:
            continue
        before = row.pop(PREVIOUS, None)
        own = None if before is None else {name: before[name] for name in visible(before) if name != OP}
        yield SourceRow(manifest.batch, row.pop(OP, None), row, own)


def _moment(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)
