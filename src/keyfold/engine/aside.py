"""Files beside a table, one per batch: rejected rows as JSON lines, changes as Parquet.

A file is named by its batch, written aside and renamed; a batch that runs again after a crash writes the same
file again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from keyfold.engine.home import TableHome, rename_durably

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import ViewSchema


class RejectedFile:
    """The rejected rows of one batch, written as they come: a whole file of them must fit in no memory."""

    def __init__(self, home: TableHome, batch: int) -> None:
        self._batch = batch
        self._path = home.rejected / f"{batch:012d}.jsonl"
        self._aside = home.rejected / f".{batch:012d}.{os.getpid()}"
        self._file: IO[str] | None = None
        self.rows = 0

    def write(self, found: list[str]) -> None:
        """`found`: JSON texts of reason and raw, as the kernel made them."""
        if found and self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._aside.open("w", encoding="utf-8")
        at = datetime.now(UTC).isoformat()
        for text in found:
            assert self._file is not None
            row = {"batch": self._batch, "at": at, **json.loads(text)}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.rows += 1

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            rename_durably(self._aside, self._path)
        else:
            # What an earlier try of this batch rejected may have been mended since.
            self._path.unlink(missing_ok=True)


def read_rejected(home: TableHome) -> list[dict[str, Any]]:
    """Every rejected row of a table, oldest batch first: batch, at, reason, raw."""
    files = sorted(home.rejected.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]


def counts(directory: Path) -> dict[int, int]:
    """How many rows each batch has put aside in a directory."""
    return {int(file.stem): file.read_bytes().count(b"\n") for file in directory.glob("[0-9]*.jsonl")}


def of_stream(stream: str, per_table: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A stream's rejected rows: one that several of its tables refuse is listed once.

    Rows of the other streams of a union are left out, but those of which no stream is known are in.
    """
    seen: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for table in per_table:
        here: Counter[str] = Counter()
        for row in table:
            if row.get("stream", stream).lower() != stream.lower():
                continue
            here[row["raw"]] += 1
            if here[row["raw"]] > seen[row["raw"]]:
                rows.append(row)
        seen |= here
    return rows


class ChangeFile:
    """The changes of one batch, written as they come."""

    def __init__(self, home: TableHome, batch: int, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        home.changes.mkdir(parents=True, exist_ok=True)
        self.path = home.changes / f"{batch:012d}.parquet"
        self._aside = home.changes / f".{batch:012d}.{os.getpid()}"
        self._writer = pq.ParquetWriter(self._aside, schema)

    def write(self, changes: pa.RecordBatch) -> None:
        self._writer.write_batch(changes)

    def close(self) -> None:
        self._writer.close()
        rename_durably(self._aside, self.path)


def read_changes(home: TableHome, schema: ViewSchema, after: int = -1) -> Iterator[dict[str, Any]]:
    """The changes of the batches after one, oldest first, each with `_op` and `_batch`."""
    for file in change_files(home):
        if int(file.stem) > after:
            yield from _rows(file, schema)


def change_files(home: TableHome) -> list[Path]:
    return sorted(home.changes.glob("[0-9]*.parquet"))


def _rows(file: Path, schema: ViewSchema) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for changes in pq.ParquetFile(file).iter_batches():
        decoded = [changes.column("_op").to_pylist()]
        columns = (*schema.keys, *schema.columns)
        for column in columns:
            stored = column.type.encode(changes.column(column.name).cast(column.type.stored))
            decoded.append([None if value is None else column.type.decode(value) for value in stored])
        names = ("_op", *(column.name for column in columns))
        for values in zip(*decoded, strict=True):
            yield {**dict(zip(names, values, strict=True)), "_batch": int(file.stem)}
