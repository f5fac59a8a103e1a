"""Writes the changes of one batch to SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from keyfold.errors import KeyfoldError, RunError
from keyfold.fault_points import FaultPoint, reached
from keyfold.views import arrow as pa
from keyfold.views.contract import BatchWriter, Position
from keyfold.views.schema import ViewSchema
from keyfold.views.sqlite import connections, sql
from keyfold.views.sqlite.connections import Gate
from keyfold.views.sqlite.spool import Spool
from keyfold.views.types import epoch
from keyfold.views.types.base import Sql

# Many rows per statement: fewer steps, and the interpreter lock changes hands once per step.
_ROWS_PER_STATEMENT: Final = 100
_STATEMENTS_PER_CHUNK: Final = 64
_START_EARLY: Final = 4 * 1024 * 1024
_OPS: Final = ("upsert", "final", "delete")


class RowWriter:
    """Turns changes of one view into SQL; the caller has a transaction open."""

    def __init__(self, connection: sqlite3.Connection, schema: ViewSchema, batch: int, at: int) -> None:
        self._connection = connection
        self._columns = (*schema.keys, *schema.columns)
        self._keys = len(schema.keys)
        limit = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._rows = max(1, min(_ROWS_PER_STATEMENT, limit // len(self._columns)))
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
            column.type.encode(values)
            for column, values in zip(self._columns, changes.columns[1:], strict=True)
        ]
        deletes = pa.compute.equal(changes.column(0), "delete")
        if pa.compute.any(deletes).as_py():
            self._mixed(columns, deletes.to_pylist())
        else:
            self._upsert(columns, changes.num_rows)

    def _mixed(self, columns: list[list[Sql]], deletes: list[bool]) -> None:
        # What a key's last change says is all that remains, so earlier ones in the chunk need not be written
        # and the order between keys doesn't matter.
        last: dict[tuple[Sql, ...], tuple[Sql, ...] | None] = {}
        for gone, row in zip(deletes, zip(*columns, strict=True), strict=True):
            last[row[: self._keys]] = None if gone else row
        self._connection.executemany(self._delete, (key for key, row in last.items() if row is None))
        rows = [row for row in last.values() if row is not None]
        if rows:
            self._upsert([list(column) for column in zip(*rows, strict=True)], len(rows))

    def _upsert(self, columns: list[list[Sql]], rows: int) -> None:
        width = len(columns)
        flat: list[Sql] = [None] * (rows * width)
        for place, column in enumerate(columns):
            flat[place::width] = column
        step = self._rows * width
        whole = len(flat) - len(flat) % step
        self._connection.executemany(self._many, (flat[i : i + step] for i in range(0, whole, step)))
        self._connection.executemany(self._one, (flat[i : i + width] for i in range(whole, len(flat), width)))


class BatchWrite(BatchWriter):
    """One batch on its way into a view.

    Rows come as fast as Spark makes them, which may take long, and SQLite has one writer. If a batch held
    the write lock while it waits for rows, the other tables would have to stop reading theirs, their
    Spark tasks would block on full buffers and keep the cores that the first one needs: a deadlock. So a
    batch never waits for the lock while rows come. It puts them aside (in memory, then in a file) and
    takes the lock once, when it has all rows: then only SQLite's own speed decides, and every table's
    turn comes. The one exception is a batch that is alone: it writes as rows come, beside Spark's work.
    Batches that start meanwhile put theirs aside and wait for it at their end, where they hold no task of
    Spark's.
    """

    def __init__(
        self,
        schema: ViewSchema,
        position: Position,
        gate: Gate,
        directory: Path,
        begin: Callable[[], tuple[sqlite3.Connection, bool]],
    ) -> None:
        self._schema = schema
        self._position = position
        self._gate = gate
        self._begin = begin
        self._columns = (*schema.keys, *schema.columns)
        self._sent = schema.arrow
        self._stored = pa.schema(
            [("_op", pa.string()), *((column.name, column.type.stored) for column in self._columns)]
        )
        self._spool = Spool(self._stored, directory)
        self._connection: sqlite3.Connection | None = None
        self._rows: RowWriter | None = None
        with gate.counting:
            gate.batches += 1

    def apply(self, changes: pa.RecordBatch) -> None:
        """Adds changes, in order; they become visible when the batch ends."""
        if self.replayed or changes.num_rows == 0:
            return
        with self._named_errors():
            stored = self._checked(changes)
            if self._rows is not None:
                self._rows.write(stored)
                return
            self._spool.add(stored)
            if (
                self._spool.size > _START_EARLY
                and self._alone()
                and self._gate.writing.acquire(blocking=False)
            ):
                self._start()

    def commit(self) -> None:
        """Makes rows and position visible."""
        with self._named_errors():
            if self._connection is None:
                self._gate.writing.acquire()
                self._start()
            if self._connection is not None and not self.replayed:
                self._connection.execute(
                    "UPDATE _keyfold_views SET batch = ?, at = ?, watermark = ? WHERE name = ?",
                    (self._position.batch, *micros(self._position), self._schema.table),
                )
                self._connection.execute("COMMIT")

    def end(self) -> None:
        """Gives the lock back; whatever is not committed is undone."""
        self._spool.close()
        with self._gate.counting:
            self._gate.batches -= 1
        if self._connection is not None:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            finally:
                self._connection = None
                self._gate.writing.release()

    def _start(self) -> None:
        try:
            self._connection, self.replayed = self._begin()
        except BaseException:
            self._gate.writing.release()
            raise
        if self.replayed:
            return
        self._rows = RowWriter(
            self._connection, self._schema, self._position.batch, micros(self._position)[0]
        )
        for changes in self._spool.drain():
            self._rows.write(changes)
        reached(FaultPoint.VIEW_WRITTEN, table=self._schema.table, batch=self._position.batch)

    def _alone(self) -> bool:
        return self._gate.batches == 1

    def _checked(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        if changes.schema.names != self._sent.names:
            given = ", ".join(changes.schema.names)
            raise self._error(
                "the changes have other columns than the view", given, ", ".join(self._sent.names)
            )
        ops = changes.column(0).cast(pa.string())
        if not pa.compute.all(pa.compute.is_in(ops, pa.array(_OPS))).as_py():
            raise self._error("unknown _op", ", ".join(map(repr, pa.compute.unique(ops).to_pylist())), None)
        columns = [
            # Two steps: the first brings other units of time to microseconds. Neither copies as a rule.
            values.cast(column.type.arrow).cast(column.type.stored)
            for column, values in zip(self._columns, changes.columns[1:], strict=True)
        ]
        return pa.RecordBatch.from_arrays([ops, *columns], schema=self._stored)

    def _error(self, what: str, given: str | None, hint: str | None) -> RunError:
        return RunError(what, given=given, hint=hint, table=self._schema.table, batch=self._position.batch)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except KeyfoldError:
            raise
        except (sqlite3.Error, pa.ArrowException, OSError) as error:
            hint = connections.WAY_OUT if connections.damaged(str(error)) else None
            raise self._error(f"the view can't be written: {error}", None, hint) from error


def micros(position: Position) -> tuple[int, Any]:
    """Time and watermark as SQLite keeps them."""
    watermark = None if position.watermark is None else epoch.to_micros(position.watermark)
    return epoch.to_micros(position.at), watermark


def position_of(batch: int | None, at: Any, watermark: Any) -> Position | None:
    """A position from what SQLite keeps."""
    if batch is None:
        return None
    moments = [None if value is None else epoch.from_micros(value, zoned=True) for value in (at, watermark)]
    # Both were datetimes when they were written, so none is beyond Python's years.
    return Position(batch, cast(datetime, moments[0]), cast("datetime | None", moments[1]))
