"""Keys given as text: which rows they mean, and values of keys as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def matching(found: pa.RecordBatch, names: Sequence[str], key: Sequence[str]) -> pa.RecordBatch:
    """The rows whose first columns have these values, as text."""
    import pyarrow as pa

    for name, wanted in zip(names, key, strict=False):
        if found.num_rows:
            found = found.filter(pa.array(is_value(v, wanted) for v in found.column(name).to_pylist()))
    return found


def is_value(value: Any, wanted: str) -> bool:
    """Whether a value of a key is the one that a text means."""
    if value is None:
        return False
    if isinstance(value, bool):
        return str(value).lower() == wanted.lower()
    if isinstance(value, datetime):
        return _moment(value, wanted)
    return str(value) == wanted or (isinstance(value, int | float | Decimal) and _is_number(value, wanted))


def _is_number(value: float | Decimal, wanted: str) -> bool:
    """Whether a number is the one that a text means, which may have fewer decimals: 7.50 is 7.5."""
    try:
        return Decimal(str(value)) == Decimal(wanted)
    except InvalidOperation:
        return False


def as_text(value: Any) -> str:
    """A value of a key as text that is the same wherever it is kept: in state, view or log."""
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
