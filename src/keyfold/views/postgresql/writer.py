"""Writes the changes of one batch, or of several that follow each other, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from keyfold.fault_points import FaultPoint, reached
from keyfold.views import arrow as pa
from keyfold.views import changes as view_changes
from keyfold.views.contract import BatchWriter, Position
from keyfold.views.postgresql import connections, failures
from keyfold.views.postgresql.catalog import Catalog
from keyfold.views.postgresql.connections import Pool
from keyfold.views.postgresql.sql import ViewTable
from keyfold.views.postgresql.staging import Change, Staging

if TYPE_CHECKING:
    import psycopg

_GATHERED_BYTES: Final = 16 * 1024 * 1024
Prepare = Callable[["psycopg.Connection[Any]"], ViewTable]


class BatchWrite(BatchWriter):
    """The writer of a batch of changes; without any, or before many, it holds no connection."""

    def __init__(
        self, pool: Pool, catalog: Catalog, table: ViewTable, position: Position, where: str
    ) -> None:
        self._pool, self._catalog, self._table, self._where = pool, catalog, table, where
        self._first = self._position = position
        self._gathered: list[Change] = []
        self._bytes = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._staging: Staging | None = None

    def apply(self, changes: pa.RecordBatch) -> None:
        """Adds changes, in order; they become visible when the batch ends."""
        if self.replayed or changes.num_rows == 0:
            return
        with self._errors():
            canonical = view_changes.canonical(changes, self._table.schema, self._position.batch)
            self._gathered.append((canonical, self._position))
            self._bytes += canonical.nbytes
            if self._bytes > _GATHERED_BYTES:
                self._stage()

    def next(self, position: Position) -> None:
        """Continues with a later batch, in the same transaction."""
        self._position = position

    def commit(self, prepare: Prepare | None = None) -> None:
        """Commits rows and position together; `prepare` makes the table ready for the rows."""
        if self.replayed:
            return
        with self._errors():
            self._stage()
            assert self._connection is not None
            assert self._staging is not None
            if prepare is not None:
                self._table = prepare(self._connection)
            elif self._applied(self._connection):
                self.replayed = True
                return
            self._staging.merge()
            reached(FaultPoint.VIEW_WRITTEN, table=self._table.schema.table, batch=self._position.batch)
            self._catalog.move(self._connection, self._table.schema.table, self._position)
            self._connection.execute("COMMIT")

    def end(self) -> None:
        """Gives the connection back; rolls back what is not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)

    def _applied(self, connection: psycopg.Connection[Any]) -> bool:
        # Locks the position until the end: another process may be writing the batch too.
        return self._catalog.has(connection, self._table.schema.table, self._first.batch, lock=True)

    def _stage(self) -> None:
        """Copies what is gathered; the first time begins the transaction."""
        if self._connection is None:
            self._connection = self._pool.take(connections.CHANGE)
            self._staging = Staging(self._connection, self._table)
        gathered, self._gathered, self._bytes = self._gathered, [], 0
        assert self._staging is not None
        if gathered:
            self._staging.add(gathered)

    def _errors(self) -> Any:
        return failures.writing(self._where, self._table.schema.table, self._position.batch)
