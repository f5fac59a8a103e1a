"""The catalog of an app's schema: name, schema and position of each view, in the table `_keyfold_views`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.errors import BadName, RunError
from keyfold.views.contract import Location, Position, require_same_columns, unknown_table
from keyfold.views.postgresql import failures
from keyfold.views.postgresql.conditions import codec_in
from keyfold.views.postgresql.names import CATALOG, identifier, quoted, schema_of
from keyfold.views.postgresql.sql import ViewTable
from keyfold.views.schema import ViewSchema
from keyfold.views.types import epoch

if TYPE_CHECKING:
    import psycopg

_COLUMNS: Final = (
    'name text COLLATE "C" PRIMARY KEY, view text NOT NULL, schema text NOT NULL, batch bigint, '
    "at timestamp with time zone, watermark timestamp with time zone, edition bigint NOT NULL"
)


@dataclass(frozen=True)
class Entry:
    """What the catalog says of a view."""

    schema: ViewSchema
    position: Position | None


class Catalog:
    """The views of one app; each method works in the transaction of a connection."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self.namespace = schema_of(location)
        self._name = quoted(self.namespace, CATALOG)

    def prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Creates schema and catalog unless they exist."""
        self.lock(connection)
        if not self._has_namespace(connection):
            # The right to create schemas is only needed if there is none.
            connection.execute(f"CREATE SCHEMA {quoted(self.namespace)}", [])
            of = f"keyfold: views of app {self._location.app} in {self._location.home}"
            connection.execute(f"COMMENT ON SCHEMA {quoted(self.namespace)} IS {literal(of)}", [])
        if not self.exists(connection):
            connection.execute(self.declaration, [])

    @property
    def declaration(self) -> str:
        """The statement that creates the catalog."""
        return f"CREATE TABLE {self._name} ({_COLUMNS})"

    def lock(self, connection: psycopg.Connection[Any]) -> None:
        """Waits for others that create or drop views of the app."""
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [self.namespace])

    def exists(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether the app has ever had views here."""
        row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f"{self.namespace}.{CATALOG}"])
        return bool(_only(row))

    def _has_namespace(self, connection: psycopg.Connection[Any]) -> bool:
        return bool(_only(connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [self.namespace])))

    def _may_create(self, connection: psycopg.Connection[Any]) -> bool:
        allowed = "SELECT has_database_privilege(current_database(), 'CREATE')"
        return bool(_only(connection.execute(allowed)))

    def entry(self, connection: psycopg.Connection[Any], table: str, *, lock: bool = False) -> Entry | None:
        """The entry of a view; with `lock` nobody else changes it until the transaction ends."""
        row = connection.execute(
            f"SELECT view, schema, batch, at, watermark FROM {self._name} WHERE name = %s"
            + " FOR UPDATE" * lock,
            [table.lower()],
            binary=True,
        ).fetchone()
        return None if row is None else Entry(_schema(*row[:2]), _position(*row[2:]))

    def known(self, connection: psycopg.Connection[Any], table: str) -> ViewTable:
        """The table of a view; `QueryError` not_found with near names if it doesn't exist."""
        found = self.entry(connection, table)
        if found is None:
            raise unknown_table(table, self.names(connection))
        return self.table(found.schema)

    def table(self, schema: ViewSchema) -> ViewTable:
        """The table of a view that has this schema."""
        return ViewTable(self.namespace, schema)

    def names(self, connection: psycopg.Connection[Any]) -> tuple[str, ...]:
        """The names of all views, sorted."""
        rows = connection.execute(f"SELECT view FROM {self._name}", [])
        return tuple(sorted(name for (name,) in rows))

    def has(self, connection: psycopg.Connection[Any], table: str, batch: int, *, lock: bool) -> bool:
        """Whether a view has applied a batch already."""
        found = self.entry(connection, table, lock=lock)
        if found is None:
            raise RunError("the view was dropped during a batch", table=table, batch=batch)
        return found.position is not None and batch <= found.position.batch

    def move(self, connection: psycopg.Connection[Any], table: str, position: Position) -> None:
        """Records a position."""
        times = (position.at, position.watermark)
        connection.execute(
            f"UPDATE {self._name} SET batch = %s, at = %s, watermark = %s WHERE name = %s",
            [position.batch, *times, table.lower()],
        )

    def begin_edition(self, connection: psycopg.Connection[Any], table: str) -> None:
        """Records that a view's rows are replaced; transactions are numbered upwards."""
        statement = f"UPDATE {self._name} SET edition = txid_current() WHERE name = %s"
        connection.execute(statement, [table.lower()])

    def edition(self, connection: psycopg.Connection[Any]) -> int:
        """The newest edition of all views."""
        return int(_only(connection.execute(f"SELECT coalesce(max(edition), 0) FROM {self._name}", [])))

    def add(self, connection: psycopg.Connection[Any], schema: ViewSchema) -> None:
        """Creates an empty view."""
        table = self.table(schema)
        if table.relation == CATALOG:
            raise BadName(f"{schema.table!r} is not allowed as the name of a view", hint="another name")
        connection.execute(table.declaration, [])
        self._describe(connection, table)
        values = (schema.table.lower(), schema.table, schema.to_json())
        connection.execute(
            f"INSERT INTO {self._name} (name, view, schema, edition) VALUES (%s, %s, %s, txid_current())",
            values,
        )

    def remove(self, connection: psycopg.Connection[Any], table: str) -> None:
        """Removes a view and its rows, if it exists."""
        connection.execute(f"DROP TABLE IF EXISTS {quoted(self.namespace, identifier(table))}", [])
        connection.execute(f"DELETE FROM {self._name} WHERE name = %s", [table.lower()])

    def remove_all(self, connection: psycopg.Connection[Any]) -> None:
        """Removes all tables of the schema, also those that the catalog does not know, and the schema."""
        from psycopg import errors

        rows = connection.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'",
            [self.namespace],
        ).fetchall()
        if rows:
            tables = ", ".join(quoted(self.namespace, name) for (name,) in rows)
            connection.execute(f"DROP TABLE {tables}", [])
        if not self._has_namespace(connection) or not self._may_create(connection):
            # Somebody else has made it, and would have to make it again.
            return
        connection.execute("SAVEPOINT tables_dropped")
        try:
            connection.execute(f"DROP SCHEMA {quoted(self.namespace)}", [])
        except (errors.DependentObjectsStillExist, errors.InsufficientPrivilege):
            connection.execute("ROLLBACK TO tables_dropped")

    def confirm(self, connection: psycopg.Connection[Any], given: ViewSchema) -> None:
        """Refuses a schema that differs from the view's, and a table that was changed; stores a new help."""
        found = self.entry(connection, given.table)
        if found is None:
            raise unknown_table(given.table, self.names(connection))
        require_same_columns(found.schema, given)
        table = self.table(given)
        if (problem := self.problem(connection, table)) is not None:
            raise failures.altered(problem, f"{self.namespace}.{table.relation}")
        if found.schema != given:
            values = (given.to_json(), given.table.lower())
            connection.execute(f"UPDATE {self._name} SET schema = %s WHERE name = %s", values)
            self._describe(connection, table)

    def problem(self, connection: psycopg.Connection[Any], table: ViewTable) -> str | None:
        """How the columns of a table differ from those of its view."""
        rows = connection.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            [table.name.replace("%%", "%")],
        ).fetchall()
        if not rows:
            return "it is missing"
        found = dict(rows)
        for column in table.schema.all:
            name, wanted = identifier(column.name), codec_in(column, table.schema).name
            if found.get(name) != wanted:
                return f"column {name} is {found.get(name, 'missing')}, not {wanted}"
        return None

    def _describe(self, connection: psycopg.Connection[Any], table: ViewTable) -> None:
        if table.schema.help:
            connection.execute(f"COMMENT ON TABLE {table.name} IS {literal(table.schema.help)}", [])


def literal(text: str) -> str:
    """A text as a literal, for statements that take no parameters."""
    from psycopg.sql import Literal

    return Literal(text.replace("\0", "")).as_string(None).replace("%", "%%")


def _only(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row[0]


@functools.lru_cache(maxsize=256)
def _schema(table: str, text: str) -> ViewSchema:
    try:
        return ViewSchema.from_json(table, text)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise failures.altered(f"its schema in {CATALOG} can't be read: {error}", table) from None


def _position(batch: int | None, at: int, watermark: int | None) -> Position | None:
    if batch is None:
        return None
    times = [None if value is None else epoch.from_micros(value, zoned=True) for value in (at, watermark)]
    # Both were datetimes when they were written, so both are within Python's years.
    return Position(batch, times[0], times[1])  # type: ignore[arg-type]
