"""Writes the changes of one batch to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, cast

from keyfold.errors import KeyfoldError, RunError
from keyfold.fault_points import FaultPoint, reached
from keyfold.views import arrow as pa
from keyfold.views import changes as view_changes
from keyfold.views.contract import BatchWriter, Position
from keyfold.views.schema import ViewSchema
from keyfold.views.sqlite import connections, sql
from keyfold.views.sqlite.codec import Sql, codec_of
from keyfold.views.sqlite.connections import WriteLock
from keyfold.views.types import epoch

# Many rows per statement: fewer steps, and the interpreter lock is released once per step.
_ROWS_PER_STATEMENT: Final = 100
_STATEMENTS_PER_CHUNK: Final = 64
_GATHERED_BYTES: Final = 40 * 1024 * 1024


class RowWriter:
    """Writes changes of one view; the caller has a transaction open."""

    def __init__(self, connection: sqlite3.Connection, schema: ViewSchema, batch: int, at: int) -> None:
        self._connection = connection
        self._codecs = [codec_of(column.type) for column in (*schema.keys, *schema.columns)]
        self._keys = len(schema.keys)
        limit = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._rows = max(1, min(_ROWS_PER_STATEMENT, limit // len(self._codecs)))
        self._many = sql.upsert(schema, self._rows, batch, at)
        self._one = sql.upsert(schema, 1, batch, at)
        self._delete = sql.delete(schema)

    def write(self, changes: pa.RecordBatch) -> None:
        """Applies changes in order, a bounded number of rows at a time."""
        size = self._rows * _STATEMENTS_PER_CHUNK
        for start in range(0, changes.num_rows, size):
            self._chunk(changes.slice(start, size))

    def _chunk(self, changes: pa.RecordBatch) -> None:
        columns = [
            codec.encode(values) for codec, values in zip(self._codecs, changes.columns[1:], strict=True)
        ]
        deletes = pa.compute.equal(changes.column(0), "delete")
        if pa.compute.any(deletes).as_py():
            self._write_mixed(columns, deletes.to_pylist())
        else:
            self._upsert(columns, changes.num_rows)

    def _write_mixed(self, columns: list[list[Sql]], deletes: list[bool]) -> None:
        # Only a key's last change in the chunk matters, so earlier ones need not be written and the order
        # between keys is free.
        last: dict[tuple[Sql, ...], tuple[Sql, ...] | None] = {}
        for deleted, row in zip(deletes, zip(*columns, strict=True), strict=True):
            last[row[: self._keys]] = None if deleted else row
        self._connection.executemany(self._delete, (key for key, row in last.items() if row is None))
        rows = [row for row in last.values() if row is not None]
        if rows:
            self._upsert([list(column) for column in zip(*rows, strict=True)], len(rows))

    def _upsert(self, columns: list[list[Sql]], rows: int) -> None:
        width = len(columns)
        flat: list[Sql] = [None] * (rows * width)
        for index, column in enumerate(columns):
            flat[index::width] = column
        step = self._rows * width
        whole = len(flat) - len(flat) % step
        self._connection.executemany(self._many, (flat[i : i + step] for i in range(0, whole, step)))
        self._connection.executemany(self._one, (flat[i : i + width] for i in range(whole, len(flat), width)))


class BatchWrite(BatchWriter):
    """The writer of one batch of changes.

    Changes are gathered, up to a number of bytes, and written in the order of their keys: that is the order
    of SQLite's pages, so each page is changed once. Rows in any other order take six times as long.
    """

    def __init__(
        self,
        schema: ViewSchema,
        position: Position,
        write_lock: WriteLock,
        begin: Callable[[], tuple[sqlite3.Connection, bool]],
    ) -> None:
        self._schema = schema
        self._position = position
        self._write_lock = write_lock
        self._begin = begin
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._connection: sqlite3.Connection | None = None
        self._rows: RowWriter | None = None

    def apply(self, changes: pa.RecordBatch) -> None:
        """Adds changes, in order; they become visible when the batch ends."""
        if self.replayed or changes.num_rows == 0:
            return
        with self._named_errors():
            canonical = view_changes.canonical(changes, self._schema, self._position.batch)
            self._gathered.append(canonical)
            self._bytes += canonical.nbytes
            if self._bytes > _GATHERED_BYTES:
                self._write()

    def next(self, position: Position) -> None:
        """Continues with a later batch, in the same transaction."""
        with self._named_errors():
            if not self.replayed:
                self._write()
            self._position = position
            self._begin_rows()

    def commit(self) -> None:
        """Commits rows and position together."""
        with self._named_errors():
            self._write()
            reached(FaultPoint.VIEW_WRITTEN, table=self._schema.table, batch=self._position.batch)
            if self._connection is not None and not self.replayed:
                self._connection.execute(
                    "UPDATE _keyfold_views SET batch = ?, at = ?, watermark = ? WHERE name = ?",
                    (self._position.batch, *micros(self._position), self._schema.table),
                )
                self._connection.execute("COMMIT")

    def end(self) -> None:
        """Releases the lock; rolls back what is not committed."""
        if self._connection is not None:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            finally:
                self._connection = None
                self._write_lock.lock.release()

    def _write(self) -> None:
        """Writes what is gathered; the first time takes the lock and begins the transaction."""
        if self._connection is None:
            self._start()
        gathered, self._gathered, self._bytes = self._gathered, [], 0
        if gathered and self._rows is not None:
            for changes in view_changes.by_key(gathered, self._schema):
                self._rows.write(changes)

    def _start(self) -> None:
        self._write_lock.lock.acquire()
        try:
            self._connection, self.replayed = self._begin()
        except BaseException:
            self._write_lock.lock.release()
            raise
        self._begin_rows()

    def _begin_rows(self) -> None:
        if self._connection is not None and not self.replayed:
            at = micros(self._position)[0]
            self._rows = RowWriter(self._connection, self._schema, self._position.batch, at)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except KeyfoldError:
            raise
        except (sqlite3.Error, pa.ArrowException, OSError) as error:
            hint = connections.RECOVERY if connections.reports_damage(str(error)) else None
            raise RunError(
                f"cannot write the view: {error}",
                hint=hint,
                table=self._schema.table,
                batch=self._position.batch,
            ) from error


def micros(position: Position) -> tuple[int, Any]:
    """Time and watermark as stored in the catalog."""
    watermark = None if position.watermark is None else epoch.to_micros(position.watermark)
    return epoch.to_micros(position.at), watermark


def position_of(batch: int | None, at: Any, watermark: Any) -> Position | None:
    """A position from its values in the catalog."""
    if batch is None:
        return None
    times = [None if value is None else epoch.from_micros(value, zoned=True) for value in (at, watermark)]
    # Both were datetimes when they were written, so both are within Python's years.
    return Position(batch, cast(datetime, times[0]), cast("datetime | None", times[1]))
