"""The changes of one key that a log still has, and the batch from which on it has all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from keyfold.engine.internal_columns import OP, visible
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Since:
    """The batch from which on the log has all changes; `whole`: it is the table's first one.

    `migrated`: the batch after which a migration started the log over, if earlier changes are missing for
    that reason.
    """

    batch: int | None
    at: datetime | None
    whole: bool
    migrated: int | None = None


def since(log: TableLog) -> Since:
    """The batch back to which the changes of a log are complete."""
    known = totals(log)
    first: Manifest | None = None
    whole = known.upto < 0
    # Of the batches before it, a migration keeps those without changes that follow the last removed one.
    migrated = None if known.migrated is None or known.migrated < known.upto else known.migrated
    for manifest in log.after(known.upto):
        if not manifest.has_its_changes:
            first, whole, migrated = None, False, None
        elif first is None:
            first = manifest
    if first is None:
        return Since(None, None, whole, migrated)
    return Since(first.batch, first.at, whole, migrated)


def history(log: TableLog, key: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The changes of a key, or of all keys with these first columns, oldest first.

    Each has `batch`, `at`, `op`, and the row; a delete only has the columns of the key.
    """
    for manifest in log.after(totals(log).upto):
        for part in manifest.of_kind("change"):
            names = visible(name for name in log.schema(part).names if name != OP)
            if len(key) > len(names):
                raise QueryError(f"the table has {len(names)} columns", given=", ".join(key))
            for found in log.part_rows(part, [OP, *names]):
                yield from _changes(manifest, matching(found, names, key), names)


def matching(found: pa.RecordBatch, names: Sequence[str], key: Sequence[str]) -> pa.RecordBatch:
    """The rows whose first columns have these values, as text."""
    import pyarrow as pa

    for name, wanted in zip(names, key, strict=False):
        if found.num_rows:
            found = found.filter(pa.array(is_value(v, wanted) for v in found.column(name).to_pylist()))
    return found


def is_value(value: Any, wanted: str) -> bool:
    """Whether a value of a key equals the one that a text represents."""
    if value is None:
        return False
    if isinstance(value, bool):
        return str(value).lower() == wanted.lower()
    if isinstance(value, datetime):
        return _moment(value, wanted)
    return str(value) == wanted or (isinstance(value, int | float | Decimal) and _is_number(value, wanted))


def _is_number(value: float | Decimal, wanted: str) -> bool:
    """Whether a number equals the one that a text represents, with any number of decimals: 7.50 is 7.5."""
    try:
        return Decimal(str(value)) == Decimal(wanted)
    except InvalidOperation:
        return False


def as_text(value: Any) -> str:
    """A value of a key as text, the same for state, view and log."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)).isoformat()
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)


def _moment(value: datetime, wanted: str) -> bool:
    try:
        given = datetime.fromisoformat(wanted)
    except ValueError:
        return False
    return value.replace(tzinfo=value.tzinfo or given.tzinfo) == given.replace(
        tzinfo=given.tzinfo or value.tzinfo
    )


def _changes(manifest: Manifest, found: pa.RecordBatch, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for row in found.to_pylist():
        op = row.pop(OP)
        kept = {name: row[name] for name in names if op != "delete" or row[name] is not None}
        yield {"batch": manifest.batch, "at": manifest.at, "op": op, "row": kept}
