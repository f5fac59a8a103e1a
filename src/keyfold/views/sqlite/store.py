"""The view store on one SQLite file: a table per view, and a catalog of schemas and positions."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from keyfold.errors import QueryError, RunError
from keyfold.views import arrow as pa
from keyfold.views.contract import Difference, KeyRead, OrderBy, Position, ViewStore, Where, unknown_table
from keyfold.views.query.filters import Filter, Not
from keyfold.views.schema import Column, ViewSchema
from keyfold.views.sqlite import catalog, comparison, connections, sql
from keyfold.views.sqlite.codec import codec_of
from keyfold.views.sqlite.writer import BatchWrite, position_of


class SqliteStore(ViewStore):
    """Views in a SQLite file. Any process can read, while another one writes and after it has stopped.

    A thread may have one batch open at a time: a second one in the same thread may deadlock with the first.
    """

    reads_at_once = True

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._read_only = read_only
        self._readers = connections.Readers(path)
        self._write_lock = connections.WriteLock.of(path)
        self._writer: sqlite3.Connection | None = None
        if not read_only:
            with self._write_lock.lock:
                self._writer = connections.writer(path)
                catalog.prepare(self._writer)

    def create(self, schema: ViewSchema) -> None:
        with self._write(schema.table) as connection:
            if catalog.entry(connection, schema.table) is None:
                catalog.add(connection, schema)
            else:
                catalog.confirm(connection, schema)

    def schema(self, table: str) -> ViewSchema:
        with self._readers.use() as connection:
            return catalog.known(connection, table)

    def tables(self) -> tuple[str, ...]:
        with self._readers.use() as connection:
            return catalog.names(connection)

    @contextmanager
    def batch(
        self, table: str, batch_id: int, at: datetime, watermark: datetime | None = None
    ) -> Iterator[BatchWrite]:
        with self._readers.use() as connection:
            schema = catalog.known(connection, table)
            replayed = catalog.has(connection, table, batch_id)

        def begin() -> tuple[sqlite3.Connection, bool]:
            writer = self._begin()
            return writer, catalog.has(writer, table, batch_id)

        with self._batch(schema, Position(batch_id, at, watermark), begin) as write:
            write.replayed = replayed
            yield write
            if not replayed:
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
        def begin() -> tuple[sqlite3.Connection, bool]:
            writer = self._begin()
            if keep is None:
                catalog.remove(writer, table)
                catalog.add(writer, schema)
            else:
                catalog.confirm(writer, schema)
                writer.execute(*sql.delete_rows(schema, Not(keep)))
            return writer, False

        with self._batch(schema, Position(batch_id, at, watermark), begin) as write:
            for changes in record_batches:
                write.apply(changes)
            write.commit()

    def get(self, table: str, key: Sequence[Any]) -> dict[str, Any] | None:
        with self._readers.use() as connection:
            selection = sql.select_row(catalog.known(connection, table), key)
            with _readable(table):
                row = connection.execute(selection.sql, selection.params).fetchone()
        return None if row is None else _decoder(selection.columns)(row)

    def read_key(self, table: str, key: Sequence[Any]) -> KeyRead:
        with self._readers.use() as connection:
            found = catalog.entry(connection, table)
            if found is None:
                raise unknown_table(table, catalog.names(connection))
            selection = sql.select_row(catalog.schema(*found[:2]), key)
            with _readable(table):
                row = connection.execute(selection.sql, selection.params).fetchone()
            edition = _edition(connection)
        decoded = None if row is None else _decoder(selection.columns)(row)
        return KeyRead(found[0], position_of(*found[2:]), edition, decoded)

    def get_many(self, table: str, keys: Sequence[Sequence[Any]]) -> list[dict[str, Any] | None]:
        with self._readers.use() as connection:
            schema = catalog.known(connection, table)
            selections = [sql.select_row(schema, key) for key in keys]
            decode = _decoder(schema.all)
            with _readable(table):
                found = [connection.execute(one.sql, one.params).fetchone() for one in selections]
        return [None if row is None else decode(row) for row in found]

    def scan(
        self,
        table: str,
        where: Where = None,
        order_by: OrderBy = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        rows = self._scan(table, where, order_by, limit, columns)
        # The first step checks the arguments and runs the statement, so that errors are raised here.
        next(rows)
        return rows  # type: ignore[return-value]

    def count(self, table: str, where: Where = None) -> int | None:
        with self._readers.use() as connection:
            statement = sql.count_rows(catalog.known(connection, table), where)
            with _readable(table):
                return int(connection.execute(*statement).fetchone()[0])

    def position(self, table: str) -> Position | None:
        with self._readers.use() as connection:
            known = catalog.entry(connection, table)
        return None if known is None else position_of(*known[2:])

    def edition(self) -> int:
        with self._readers.use() as connection:
            return _edition(connection)

    def drop(self, table: str) -> None:
        with self._write(table) as connection:
            catalog.remove(connection, table)

    def copy_to(self, path: Path) -> bool:
        with self._readers.use() as connection, closing(sqlite3.connect(path)) as copy:
            connection.backup(copy)
        return True

    def compare(
        self, schema: ViewSchema, changes: Iterable[pa.RecordBatch], where: Filter | None, limit: int
    ) -> list[Difference]:
        with TemporaryDirectory(prefix="keyfold-verify-") as directory:
            file = Path(directory) / self.path.name
            with SqliteStore(file, read_only=False) as other:
                other.rebuild(schema.table, schema, changes, 0, datetime.now(UTC))
            return comparison.differences(self.path, file, schema, where, limit)

    def purge(self) -> None:
        # A deleted row stays in free pages and in the log of writes until the file is written anew.
        with self._write_lock.lock, _writable(None):
            connection = self._open_writer()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._readers.close()
        if self._writer is not None:
            with self._write_lock.lock:
                self._writer.close()
                self._writer = None

    def _scan(
        self,
        table: str,
        where: Where,
        order_by: OrderBy,
        limit: int | None,
        columns: Sequence[str] | None,
    ) -> Iterator[dict[str, Any] | None]:
        with self._readers.use() as connection:
            selection = sql.select_rows(catalog.known(connection, table), where, order_by, limit, columns)
            decode = _decoder(selection.columns)
            with _readable(table):
                cursor = connection.execute(selection.sql, selection.params)
            yield None
            with _readable(table):
                for row in cursor:
                    yield decode(row)

    @contextmanager
    def _batch(
        self, schema: ViewSchema, position: Position, begin: Callable[[], tuple[sqlite3.Connection, bool]]
    ) -> Iterator[BatchWrite]:
        write = BatchWrite(schema, position, self._write_lock, begin)
        try:
            yield write
        finally:
            write.end()

    @contextmanager
    def _write(self, table: str) -> Iterator[sqlite3.Connection]:
        with self._write_lock.lock:
            connection = None
            try:
                with _writable(table):
                    connection = self._begin()
                    yield connection
                    connection.execute("COMMIT")
            finally:
                if connection is not None and connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _begin(self) -> sqlite3.Connection:
        connection = self._open_writer()
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            why = "is open for reading only" if self._read_only else "is closed"
            raise RunError(f"the view store {why}", where=self.path)
        return self._writer


def _edition(connection: sqlite3.Connection) -> int:
    """The version of SQLite's schema, which a rebuild, a restore and a VACUUM change."""
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


@functools.lru_cache(maxsize=256)
def _decoder(columns: tuple[Column, ...]) -> Callable[[catalog.Row], dict[str, Any]]:
    names = [column.name for column in columns]
    codecs = [(column.name, codec_of(column.type)) for column in columns]
    others = [(name, codec.decode) for name, codec in codecs if not codec.stores_python_values]

    def decode(row: catalog.Row) -> dict[str, Any]:
        result = dict(zip(names, row, strict=True))
        for name, convert in others:
            if result[name] is not None:
                result[name] = convert(result[name])
        return result

    return decode


@contextmanager
def _writable(table: str | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        hint = connections.RECOVERY if connections.damaged(str(error)) else None
        what = "view" if table else "views"
        raise RunError(f"cannot write the {what}: {error}", table=table, hint=hint) from error


@contextmanager
def _readable(table: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        _unreadable(table, error, "bad_request" if "too" in str(error) else "not_ready")
    except sqlite3.Error as error:
        _unreadable(table, error, "not_ready")


def _unreadable(table: str, error: Exception, reason: Any) -> NoReturn:
    hint = connections.RECOVERY if connections.damaged(str(error)) else None
    raise QueryError(f"cannot read the view: {error}", reason=reason, where=table, hint=hint) from error
