"""Exports rows as CSV and Parquet, in a streaming way."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from keyfold.errors import QueryError
from keyfold.read import tabular

if TYPE_CHECKING:
    from keyfold.views.contract import ViewSchema

Rows = Iterator[dict[str, Any]]
_LINES: Final = 100


def write_csv(rows: Rows, schema: ViewSchema, out: str | None) -> int:
    """Values as in JSON, nulls as empty cells; returns the number of rows."""
    number = 0
    with _target(out) as file:
        text = _text(file)
        text.write(tabular.csv_head(schema))
        for piece in tabular.pieces(rows, _LINES):
            text.write(tabular.csv_text(piece))
            number += len(piece)
    return number


def write_parquet(rows: Rows, schema: ViewSchema, out: str | None) -> int:
    """With Spark's types, so that Spark and pandas read the same values; returns the number of rows."""
    import pyarrow.parquet as pq

    if out is None and sys.stdout.isatty():
        hint = "--out FILE, or > FILE"
        raise QueryError("Parquet can't be written to a terminal", given="--format parquet", hint=hint)
    number = 0
    with _target(out) as file, pq.ParquetWriter(file, tabular.arrow_schema(schema)) as writer:
        for piece in tabular.pieces(rows, tabular.PIECE):
            writer.write_batch(tabular.record_batch(piece, schema))
            number += len(piece)
    return number


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
