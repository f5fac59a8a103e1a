"""Exports rows as CSV and Parquet, in a streaming way."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from keyfold.errors import QueryError
from keyfold.read.values import plain
from keyfold.views.types.nested import Array, Map, Struct

if TYPE_CHECKING:
    from keyfold.views.contract import Column, ViewSchema
    from keyfold.views.types.base import DataType

_PIECE: Final = 20_000
Rows = Iterator[dict[str, Any]]


def write_csv(rows: Rows, schema: ViewSchema, out: str | None) -> int:
    """Values as in JSON, nulls as empty cells; returns the number of rows."""
    number = 0
    with _target(out) as file:
        writer = csv.writer(_text(file), lineterminator="\n")
        writer.writerow(column.name for column in schema.all)
        for row in rows:
            writer.writerow(_cell(value) for value in row.values())
            number += 1
    return number


def write_parquet(rows: Rows, schema: ViewSchema, out: str | None) -> int:
    """With Spark's types, so that Spark and pandas read the same values; returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if out is None and sys.stdout.isatty():
        hint = "--out FILE, or > FILE"
        raise QueryError("Parquet can't be written to a terminal", given="--format parquet", hint=hint)
    fields = pa.schema([(column.name, column.type.arrow) for column in schema.all])
    number = 0
    with _target(out) as file, pq.ParquetWriter(file, fields) as writer:
        while piece := list(islice(rows, _PIECE)):
            arrays = [_array(piece, column) for column in schema.all]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=fields))
            number += len(piece)
    return number


def _array(piece: list[dict[str, Any]], column: Column) -> Any:
    import pyarrow as pa

    try:
        return pa.array([_arrow(row[column.name], column.type) for row in piece], column.type.arrow)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        # A timestamp outside Python's years is read as text.
        what = f"column {column.name} has a value that Parquet does not support: {error}"
        raise QueryError(what, given="--format parquet", hint="--format csv or json") from None


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


def _cell(value: Any) -> Any:
    shown = plain(value)
    return "" if shown is None else _json(shown) if isinstance(shown, dict | list | bool) else shown


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _text(file: IO[bytes]) -> Any:
    import codecs

    return codecs.getwriter("utf-8")(file)


@contextmanager
def _target(out: str | None) -> Iterator[IO[bytes]]:
    """Stdout, or a file that appears when it is complete."""
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(out).expanduser().resolve()
    # A pipe or a device is written to directly; a file is renamed into place when it is complete.
    special = path.exists() and not path.is_file()
    temporary = path if special else path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
        if not special:
            os.replace(temporary, path)
    except OSError as error:
        raise QueryError(f"cannot write {out}: {error.strerror}", given=f"--out {out}") from None
    finally:
        if not special:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
