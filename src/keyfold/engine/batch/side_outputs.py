"""The files beside a table, one per batch: side outputs as JSON lines, changes as Parquet.

A file is named after its batch, written under a temporary name and renamed; a batch that runs again after a
crash writes the same file again.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypedDict

from keyfold import private
from keyfold.engine.internal_columns import PREVIOUS
from keyfold.engine.storage.files import rename_durably
from keyfold.engine.storage.layout import TableHome
from keyfold.views.types import epoch

if TYPE_CHECKING:
    import pyarrow as pa

    from keyfold.views.contract import ViewSchema


class Window(TypedDict):
    """A window that a late row missed: its bounds in microseconds since the epoch."""

    start: int
    end: int


class SideOutput(TypedDict, total=False):
    """One value of the kernel's side output column, as `SideOutput.schema` in the kernel defines it.

    Fields that a kind does not have are None or missing; times are microseconds since the epoch.
    """

    kind: str
    reason: str | None
    raw: str | None
    stream: str | None
    cause: str | None
    file: str | None
    line: int | None
    byte: int | None
    event_time: int | None
    watermark: int | None
    missed: int
    last_end: int
    windows: list[Window]
    step: str | None
    count: int


class SideOutputFile:
    """The side output of one batch and kind, as JSON lines, written as the rows come.

    The rows of a batch need not fit in memory.
    """

    def __init__(self, directory: Path, batch: int) -> None:
        self._batch = batch
        self._path = directory / f"{batch:012d}.jsonl"
        self._temporary = directory / f".{batch:012d}.{os.getpid()}"
        self._file: IO[str] | None = None
        self.rows = 0

    def write(self, found: Sequence[SideOutput]) -> None:
        """Appends rows to the file, which is created with the first of them."""
        if found and self._file is None:
            private.directory(self._path.parent)
            self._file = private.opened(self._temporary, "w", encoding="utf-8")
        at = datetime.now(UTC).isoformat()
        for side in found:
            assert self._file is not None
            row = {"batch": self._batch, "at": at, **self._row(side)}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self.rows += 1

    def close(self) -> None:
        """Puts the file in place, or removes the one that an earlier attempt at this batch left."""
        if self._file is not None:
            self._file.close()
            rename_durably(self._temporary, self._path)
        else:
            # The cause of the earlier attempt's side output may have been repaired since.
            self._path.unlink(missing_ok=True)

    def count(self, counted: dict[int, int]) -> None:
        """Enters its rows into the counts of all batches."""
        if self.rows or self._batch in counted:
            counted[self._batch] = self.rows

    def _row(self, side: SideOutput) -> Mapping[str, Any]:
        """The fields of a row as they are written."""
        return present(side, "reason", "raw", "cause", "file", "line", "byte", "stream")


def present(side: SideOutput, *names: str) -> dict[str, Any]:
    """The fields of a side output that have a value, by name."""
    values: Mapping[str, Any] = side
    return {name: values[name] for name in names if values.get(name) is not None}


class DuplicateFile(SideOutputFile):
    """The rows that `distinct` dropped in one batch: how many, and the rows themselves on request."""

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.removed, batch)

    def write(self, found: Sequence[SideOutput]) -> None:
        super().write(found)
        # A line may stand for many rows.
        self.rows += sum(side["count"] - 1 for side in found)

    def _row(self, side: SideOutput) -> Mapping[str, Any]:
        return {"removed": side["count"], **present(side, "step", "raw")}


class LateFile(SideOutputFile):
    """The late rows of one batch: also their time, how late they were and which windows they missed."""

    def __init__(self, home: TableHome, batch: int) -> None:
        super().__init__(home.late, batch)

    def _row(self, side: SideOutput) -> Mapping[str, Any]:
        watermark = side["watermark"]
        late_by = None if watermark is None else (watermark - side["last_end"]) / 1_000_000
        windows = [(window["start"], window["end"]) for window in side["windows"]]
        return {
            **present(side, "reason", "raw", "stream"),
            "time": _text(side["event_time"]),
            "watermark": _text(watermark),
            "late_by": late_by,
            "missed": side["missed"],
            "windows": [{"window_start": _text(start), "window_end": _text(end)} for start, end in windows],
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
    """The duplicates that `distinct(removed=True)` recorded, oldest batch first: batch, at, step, raw."""
    found = (row for file in row_files(home.removed) for row in rows_in(file) if "raw" in row)
    return [{name: value for name, value in row.items() if name != "removed"} for row in found]


def row_files(directory: Path) -> list[Path]:
    """The side output files of a directory, oldest batch first."""
    return sorted(directory.glob("[0-9]*.jsonl"))


def rows_in(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file; none if the batch has meanwhile run again without any."""
    with suppress(FileNotFoundError), file.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield json.loads(line)


def counts(directory: Path) -> dict[int, int]:
    """How many rows of a directory's side output each batch has."""
    return {int(file.stem): file.read_bytes().count(b"\n") for file in row_files(directory)}


def removed_counts(directory: Path) -> dict[int, int]:
    """How many duplicates each batch has dropped."""
    return {int(file.stem): sum(row["removed"] for row in rows_in(file)) for file in row_files(directory)}


def of_stream(stream: str, per_table: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A stream's rejected rows: one that several of its tables reject is listed once.

    Rows of other streams in a union are left out; rows whose stream is unknown are included.
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

    With `keep`, a file that an earlier attempt at the batch put in place stays: it may have been read.
    """

    def __init__(self, home: TableHome, batch: int, schema: pa.Schema, *, keep: bool = False) -> None:
        import pyarrow.parquet as pq

        private.directory(home.changes)
        self.path = home.changes / f"{batch:012d}.parquet"
        self._temporary = home.changes / f".{batch:012d}.{os.getpid()}"
        self.rows = pq.read_metadata(self.path).num_rows if keep and self.path.exists() else 0
        self._schema = as_parquet(schema)
        self._writer = None
        if not (keep and self.path.exists()):
            private.write(self._temporary, b"")
            self._writer = pq.ParquetWriter(self._temporary, self._schema)

    def write(self, changes: pa.RecordBatch) -> None:
        if self._writer is not None:
            self._writer.write_batch(changes.cast(self._schema))
            self.rows += changes.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            rename_durably(self._temporary, self.path)


def change_schema(schema: ViewSchema, *, previous: bool) -> pa.Schema:
    """The columns of a batch's changes: the view's, and with `previous` the row before the change."""
    import pyarrow as pa

    if not previous:
        return schema.arrow
    before = pa.struct([("_op", pa.string()), *((c.name, c.type.arrow) for c in schema.columns)])
    return schema.arrow.append(pa.field(PREVIOUS, before))


def as_parquet(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Spark reads from Parquet, which has no time of day in nanoseconds."""
    import pyarrow as pa

    def readable(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_time64(kind):
            return pa.time64("us")
        if pa.types.is_list(kind):
            return pa.list_(readable(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(readable(kind.key_type), readable(kind.item_type))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, readable(field.type)) for field in kind])
        return kind

    return pa.schema([(field.name, readable(field.type)) for field in schema])


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
            decoded.append(column.type.python_values(changes.column(column.name)))
        names = ("_op", *(column.name for column in columns))
        for values in zip(*decoded, strict=True):
            yield {**dict(zip(names, values, strict=True)), "_batch": int(file.stem)}
