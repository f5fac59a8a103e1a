"""Rows in formats that are written piece by piece: CSV, and Arrow's record batches."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import QueryError
from keyfold.read.values import plain, utf8
from keyfold.views.types.nested import Array, Map, Struct
from keyfold.views.types.numbers import Integer
from keyfold.views.types.scalars import Boolean, Text
from keyfold.views.types.temporal import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import Column, ViewSchema
    from keyfold.views.types.base import DataType

Row = dict[str, Any]
PIECE: Final = 20_000
"""How many rows a record batch has at most."""


def pieces(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """The rows, some at a time."""
    left = iter(rows)
    while piece := list(islice(left, size)):
        yield piece


def json_lines(piece: Iterable[Row], schema: ViewSchema) -> bytes:
    """Rows as lines of JSON, as `plain` makes their values; the rows are changed."""
    # Most values are those of JSON already: only the others are converted, which takes half of the time.
    others = [(column.name, _plain(column.type)) for column in schema.all if not _is_json(column.type)]
    lines = []
    for row in piece:
        for name, convert in others:
            if row[name] is not None:
                row[name] = convert(row[name])
        lines.append(utf8(row))
    return b"\n".join([*lines, b""])


def _is_json(kind: DataType) -> bool:
    return isinstance(kind, Integer | Text | Boolean)


def _plain(kind: DataType) -> Callable[[Any], Any]:
    return _moment if isinstance(kind, Timestamp) else plain


@lru_cache(maxsize=4096)
def _moment(value: Any) -> Any:
    """A timestamp, of which many rows have the same: that of their batch."""
    return plain(value)


def csv_head(schema: ViewSchema) -> str:
    """The first line of CSV: the names of the columns."""
    return csv_lines([[column.name for column in schema.all]])


def csv_text(piece: Iterable[Row]) -> str:
    """Rows as lines of CSV: values as in JSON, nulls as empty cells."""
    return csv_lines([_cell(value) for value in row.values()] for row in piece)


def arrow_schema(schema: ViewSchema) -> pa.Schema:
    """The columns of a view with Spark's types."""
    import pyarrow as pa

    return pa.schema([(column.name, column.type.arrow) for column in schema.all])


def record_batch(piece: Sequence[Row], schema: ViewSchema) -> pa.RecordBatch:
    """Rows as a record batch, so that Spark and pandas read the same values."""
    import pyarrow as pa

    arrays = [_array(piece, column) for column in schema.all]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def _array(piece: Sequence[Row], column: Column) -> Any:
    import pyarrow as pa

    try:
        return pa.array([_arrow(row[column.name], column.type) for row in piece], column.type.arrow)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        # A timestamp outside Python's years is read as text.
        what = f"column {column.name} has a value that Arrow and Parquet do not support: {error}"
        raise QueryError(what, where=f"column {column.name}", hint="the format csv or json") from None


def _arrow(value: Any, kind: DataType) -> Any:
    """A value as Arrow takes it: a map as pairs."""
    if value is None:
        return None
    if isinstance(kind, Array):
        return [_arrow(item, kind.element) for item in value]
    if isinstance(kind, Map):
        return [(_arrow(key, kind.key), _arrow(item, kind.value)) for key, item in value.items()]
    if isinstance(kind, Struct):
        return {name: _arrow(value[name], type_) for name, type_ in kind.fields}
    return value


def csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    """Cells as lines of CSV."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def _cell(value: Any) -> Any:
    shown = plain(value)
    if shown is None:
        return ""
    return json.dumps(shown, ensure_ascii=False) if isinstance(shown, dict | list | bool) else shown
