"""The view store in one schema of a database: a table per view, and a catalog of schemas and positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.errors import QueryError, RunError
from keyfold.views import arrow as pa
from keyfold.views.changes import as_changes, canonical
from keyfold.views.contract import (
    Difference,
    Location,
    NoViewsYet,
    OrderBy,
    Position,
    ViewSchema,
    ViewStore,
    Where,
)
from keyfold.views.copies import write_copy
from keyfold.views.postgresql import connections, failures
from keyfold.views.postgresql.catalog import Catalog
from keyfold.views.postgresql.connections import Pool
from keyfold.views.postgresql.rows import Row, decoder, fetched
from keyfold.views.postgresql.sql import ViewTable
from keyfold.views.postgresql.staging import Change, Staging
from keyfold.views.postgresql.writer import BatchWrite
from keyfold.views.query.filters import Filter
from keyfold.views.schema import AT, BATCH

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]


class PostgresStore(ViewStore):
    """Views in a schema of a database. Any process can read, while another one writes.

    Each read and each batch has a connection, so none waits for another; a batch locks its view's position.
    """

    def __init__(self, location: Location, where: str, *, read_only: bool) -> None:
        self._where, self._read_only = where, read_only
        self._closed = False
        self._pool = Pool(location)
        self._catalog = Catalog(location)
        if not read_only:
            try:
                self._prepare()
            except BaseException:
                self._pool.close()
                raise

    def _prepare(self) -> None:
        with failures.writing(self._where), self._pool.use(connections.CHANGE) as connection:
            self._catalog.prepare(connection)
            connection.execute("COMMIT")

    def create(self, schema: ViewSchema) -> None:
        with self._change(schema.table) as connection:
            self._catalog.lock(connection)
            if self._catalog.entry(connection, schema.table) is None:
                self._catalog.add(connection, schema)
            else:
                self._catalog.confirm(connection, schema)

    def schema(self, table: str) -> ViewSchema:
        with self._reader(table) as connection:
            return self._catalog.known(connection, table).schema

    def tables(self) -> tuple[str, ...]:
        with self._reader() as connection:
            return self._catalog.names(connection)

    @contextmanager
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> Iterator[BatchWrite]:
        self._require_writable()
        with failures.writing(self._where, table), self._pool.use(connections.SNAPSHOT) as connection:
            known = self._catalog.known(connection, table)
            replayed = self._catalog.has(connection, table, batch_id, lock=False)
        with self._write(known, Position(batch_id, at, watermark)) as write:
            write.replayed = replayed
            yield write
            write.commit()

    def rebuild(
        self,
        table: str,
        schema: ViewSchema,
        record_batches: Iterable[pa.RecordBatch],
        batch_id: int,
        at: datetime,
        watermark: datetime | None = None,
        keep: Filter | None = None,
    ) -> None:
        self._require_writable()
        with self._write(self._catalog.table(schema), Position(batch_id, at, watermark)) as write:
            for changes in record_batches:
                write.apply(changes)
            write.commit(lambda connection: self._emptied(connection, schema, keep))

    def get(self, table: str, key: Sequence[Any]) -> Row | None:
        with self._reader(table) as connection:
            known = self._catalog.known(connection, table)
            with fetched(connection, known.row(key), known.schema.keys, 1) as rows:
                return next(rows, None)

    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[Row]:
        rows = self._scan(table, where, order_by, limit, columns)
        # The first step checks the arguments and runs the statement, so that errors are raised here.
        next(rows)
        return rows  # type: ignore[return-value]

    def count(self, table: str, where: Where = None) -> int | None:
        with self._reader(table) as connection:
            statement = self._catalog.known(connection, table).count(where)
            (number,) = connection.execute(*statement).fetchone() or (0,)
            return int(number)

    def position(self, table: str) -> Position | None:
        with self._reader(table) as connection:
            found = self._catalog.entry(connection, table)
        return None if found is None else found.position

    def edition(self) -> int:
        with self._reader() as connection:
            return self._catalog.edition(connection)

    def drop(self, table: str) -> None:
        with self._change(table) as connection:
            self._catalog.lock(connection)
            self._catalog.remove(connection, table)

    def compare(
        self, schema: ViewSchema, changes: Iterable[pa.RecordBatch], where: Filter | None, limit: int
    ) -> list[Difference]:
        table = self._catalog.table(schema)
        place = Position(0, datetime.now(UTC), None)
        with (
            failures.reading(self._where, schema.table),
            self._pool.use(connections.SNAPSHOT_WITH_STAGING) as connection,
        ):
            # Its rows are gone when the transaction is rolled back.
            staging = Staging(connection, table)
            staging.add((canonical(some, schema, place.batch), place) for some in changes)
            statement, params = table.differences(where)
            found = connection.execute(statement, [*params, limit], binary=True).fetchall()
        decode = decoder(schema.keys, schema.keys)
        return [Difference(decode(row[:-2]), _problem(*row[-2:])) for row in found]

    def copy_to(self, path: Path) -> bool:
        with self._reader() as connection:
            found = [self._catalog.entry(connection, name) for name in self._catalog.names(connection)]
            views = [(self._catalog.table(one.schema), one.position) for one in found if one is not None]
            write_copy(path, ((t.schema, p, _all_rows(connection, t)) for t, p in views))
        return True

    def replace_all(self, copy: ViewStore) -> None:
        """Replaces all views by those of another store, in one transaction."""
        with self._change(None) as connection:
            self._catalog.lock(connection)
            kept = copy.tables()
            for table in self._catalog.names(connection):
                if table not in kept:
                    self._catalog.remove(connection, table)
            for table in kept:
                self._replace(connection, copy, table)

    def purge(self) -> None:
        self._require_writable()
        with self._reader() as connection:
            known = [self._catalog.known(connection, name) for name in self._catalog.names(connection)]
        with failures.writing(self._where):
            connection = self._pool.take(None)
            try:
                for table in known:
                    # Rewrites table and indexes, so that freed space has nothing left; ANALYZE replaces what
                    # the planner knows of values.
                    connection.execute(f"VACUUM (FULL, ANALYZE) {table.name}", [])
            finally:
                self._pool.give_back(connection)

    def close(self) -> None:
        self._closed = True
        self._pool.close()

    def _replace(self, connection: Connection, copy: ViewStore, table: str) -> None:
        schema, position = copy.schema(table), copy.position(table)
        target = self._emptied(connection, schema, None)
        if position is None:
            return
        staging = Staging(connection, target)
        staging.add(_with_batches(copy.scan(table, order_by=BATCH.name), schema))
        staging.merge()
        self._catalog.move(connection, table, position)

    def _emptied(self, connection: Connection, schema: ViewSchema, keep: Filter | None) -> ViewTable:
        """The table of a view with these columns, which exists and has only the rows to be kept."""
        self._catalog.lock(connection)
        found = self._catalog.entry(connection, schema.table, lock=True)
        table = self._catalog.table(schema)
        if keep is not None or (
            found is not None
            and found.schema.difference(schema) is None
            and self._catalog.problem(connection, table) is None
        ):
            # Deleted, not dropped: readers go on reading, and others have rights on the table.
            self._catalog.confirm(connection, schema)
            self._catalog.begin_edition(connection, schema.table)
            connection.execute(*table.delete_rows(keep))
        else:
            self._catalog.remove(connection, schema.table)
            self._catalog.add(connection, schema)
        return table

    def _scan(
        self,
        table: str,
        where: Where,
        order_by: OrderBy,
        limit: int | None,
        columns: Sequence[str] | None,
    ) -> Iterator[Row | None]:
        with self._reader(table) as connection:
            known = self._catalog.known(connection, table)
            selection = known.rows(where, order_by, limit, columns)
            with fetched(connection, selection, known.schema.keys, limit) as rows:
                yield None
                yield from rows

    @contextmanager
    def _reader(self, table: str | None = None) -> Iterator[Connection]:
        """A connection that sees one moment."""
        try:
            with failures.reading(self._where, table), self._pool.use(connections.SNAPSHOT) as connection:
                yield connection
        except QueryError as error:
            cause = error.__cause__
            if isinstance(cause, Exception) and failures.nothing_there(cause) and self._is_empty():
                raise NoViewsYet(self._where) from None
            raise

    def _is_empty(self) -> bool:
        with failures.reading(self._where), self._pool.use(connections.SNAPSHOT) as connection:
            return not self._catalog.exists(connection)

    @contextmanager
    def _change(self, table: str | None) -> Iterator[Connection]:
        self._require_writable()
        with failures.writing(self._where, table), self._pool.use(connections.CHANGE) as connection:
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _write(self, table: ViewTable, position: Position) -> Iterator[BatchWrite]:
        write = BatchWrite(self._pool, self._catalog, table, position, self._where)
        try:
            yield write
        finally:
            write.end()

    def _require_writable(self) -> None:
        if self._read_only or self._closed:
            why = "is closed" if self._closed else "is open for reading only"
            raise RunError(f"the view store {why}", where=self._where)


def _all_rows(connection: Connection, table: ViewTable) -> Iterator[Row]:
    # One after the other: each has the only cursor of the connection.
    with fetched(connection, table.in_order_of_batches(), table.schema.keys) as rows:
        yield from rows


def _with_batches(rows: Iterable[Row], schema: ViewSchema) -> Iterator[Change]:
    """Rows of a copy as changes, each with its batch."""
    for (batch, at), some in groupby(rows, key=lambda row: (row[BATCH.name], row[AT.name])):
        for changes in as_changes(some, schema):
            yield canonical(changes, schema, batch), Position(batch, at, None)


def _problem(first: int, last: int) -> str:
    return "has other values" if first != last else "is missing" if first == 0 else "should not be there"
