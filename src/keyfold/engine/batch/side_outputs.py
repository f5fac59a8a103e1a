"""Files beside a table, one per batch: rows put aside as JSON lines, changes as Parquet.

A file is named by its batch, written aside and renamed; a batch that runs again after a crash writes the same
file again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from keyfold import private
from keyfold.engine.storage.layout import TableHome, rename_durably
from keyfold.views.types import epoch

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import ViewSchema


class RowFile:
    """Rows that one batch puts aside, written as they come: a whole file of them must fit in no memory."""

    def __init__(self, directory: Path, batch: int) -> None:
        self._batch = batch
        self._path = directory / f"{batch:012d}.jsonl"
        self._aside = directory / f".{batch:012d}.{os.getpid()}"
        self._file: IO[str] | None = None
        self.rows = 0

    def write(self, found: Sequence[Mapping[str, Any]]) -> None:
        """`found`: what the kernel says of each row."""
        if found and self._file is None:
            private.directory(self._path.parent)
            self._file = private.opened(self._aside, "w", encoding="utf-8")
        at = datetime.now(UTC).isoformat()
        for said in found:
            assert self._file is not None
            row = {"batch": self._batch, "at": at, **self._row(said)}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.rows += 1

    def close(self) -> None:
        """Puts the file in place, or removes the one that an earlier try of this batch left."""
        if self._file is not None:
            self._file.close()
            rename_durably(self._aside, self._path)
        else:
            # What the earlier try put aside may have been mended since.
            self._path.unlink(missing_ok=True)

    def count(self, counted: dict[int, int]) -> None:
        """Enters its rows into the counts of all batches."""
        if self.rows or self._batch in counted:
            counted[self._batch] = self.rows

    def _row(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        return said


class RemovedFile(RowFile):
    """What `distinct` removed in one batch: how many rows, and the rows themselves on request."""

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.removed, batch)

    def write(self, found: Sequence[Mapping[str, Any]]) -> None:
        super().write(found)
        # A line may stand for many rows.
        self.rows += sum(said["removed"] - 1 for said in found)


class LateFile(RowFile):
    """The late rows of one batch: also their time, how late they were and which windows they missed."""

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.late, batch)

    def _row(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        late = said["late"]
        watermark = None if late["watermark_ms"] is None else late["watermark_ms"] * 1000
        late_by = None if watermark is None else (watermark - late["last_us"]) / 1_000_000
        return {
            **{name: value for name, value in said.items() if name != "late"},
            "time": _text(late["time_us"]),
            "watermark": _text(watermark),
            "late_by": late_by,
            "missed": late["missed"],
            "windows": [{"window_start": _text(s), "window_end": _text(e)} for s, e in late["windows"]],
        }


def _text(micros: int | None) -> str | None:
    found = None if micros is None else epoch.from_micros(micros, zoned=True)
    if not isinstance(found, datetime):
        return found
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_rejected(home: TableHome) -> list[dict[str, Any]]:
    """Every rejected row of a table, oldest batch first: batch, at, reason, raw."""
    return [row for file in row_files(home.rejected) for row in rows_in(file)]


def read_removed(home: TableHome) -> list[dict[str, Any]]:
    """The rows that `distinct` removed and kept aside, oldest batch first: batch, at, step, raw."""
    found = (row for file in row_files(home.removed) for row in rows_in(file) if "raw" in row)
    return [{name: value for name, value in row.items() if name != "removed"} for row in found]


def row_files(directory: Path) -> list[Path]:
    """The files of rows put aside, oldest batch first."""
    return sorted(directory.glob("[0-9]*.jsonl"))


def rows_in(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file; none if the batch has meanwhile run again and put none aside."""
    with suppress(FileNotFoundError), file.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield json.loads(line)


def counts(directory: Path) -> dict[int, int]:
    """How many rows each batch has put aside in a directory."""
    return {int(file.stem): file.read_bytes().count(b"\n") for file in row_files(directory)}


def removed_counts(directory: Path) -> dict[int, int]:
    """How many rows each batch has removed."""
    return {int(file.stem): sum(row["removed"] for row in rows_in(file)) for file in row_files(directory)}


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
    """The changes of one batch, written as they come.

    With `keep` a file that an earlier try of the batch has put in place stays: other tables may have read it.
    """

    def __init__(self, home: TableHome, batch: int, schema: pa.Schema, *, keep: bool = False) -> None:
        import pyarrow.parquet as pq

        private.directory(home.changes)
        self.path = home.changes / f"{batch:012d}.parquet"
        self._aside = home.changes / f".{batch:012d}.{os.getpid()}"
        self.rows = pq.read_metadata(self.path).num_rows if keep and self.path.exists() else 0
        self._schema = as_parquet(schema)
        self._writer = None
        if not (keep and self.path.exists()):
            private.write(self._aside, b"")
            self._writer = pq.ParquetWriter(self._aside, self._schema)

    def write(self, changes: pa.RecordBatch) -> None:
        if self._writer is not None:
            self._writer.write_batch(changes.cast(self._schema))
            self.rows += changes.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            rename_durably(self._aside, self.path)


def change_schema(schema: ViewSchema, *, previous: bool) -> pa.Schema:
    """What a batch's changes are: the view's columns, and with `previous` the row as it was before."""
    import pyarrow as pa

    if not previous:
        return schema.arrow
    before = pa.struct([("_op", pa.string()), *((c.name, c.type.arrow) for c in schema.columns)])
    return schema.arrow.append(pa.field("_kf_prev", before))


def as_parquet(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Spark reads from Parquet: no times of day in nanoseconds."""
    import pyarrow as pa

    def held(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_time64(kind):
            return pa.time64("us")
        if pa.types.is_list(kind):
            return pa.list_(held(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(held(kind.key_type), held(kind.item_type))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, held(field.type)) for field in kind])
        return kind

    return pa.schema([(field.name, held(field.type)) for field in schema])


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
            values = changes.column(column.name).cast(column.type.arrow)
            stored = column.type.encode(values.cast(column.type.stored))
            decoded.append([None if value is None else column.type.decode(value) for value in stored])
        names = ("_op", *(column.name for column in columns))
        for values in zip(*decoded, strict=True):
            yield {**dict(zip(names, values, strict=True)), "_batch": int(file.stem)}
