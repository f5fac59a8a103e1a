"""The catalog of a SQLite store: name, schema and position of each view, in the table `_keyfold_views`."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any, Final

from keyfold.errors import BadName, RunError
from keyfold.views.contract import require_same_columns, unknown_table
from keyfold.views.schema import ViewSchema
from keyfold.views.sqlite import sql

Row = tuple[Any, ...]
_TABLE: Final = """CREATE TABLE IF NOT EXISTS _keyfold_views (
    name TEXT PRIMARY KEY COLLATE NOCASE, schema TEXT NOT NULL, batch INTEGER, at INTEGER, watermark INTEGER
) WITHOUT ROWID"""


def prepare(connection: sqlite3.Connection) -> None:
    """Creates the catalog unless it exists."""
    connection.execute(_TABLE)


def entry(connection: sqlite3.Connection, table: str) -> Row | None:
    """Name, schema, batch, time and watermark of a view."""
    try:
        row: Row | None = connection.execute(
            "SELECT name, schema, batch, at, watermark FROM _keyfold_views WHERE name = ?", (table,)
        ).fetchone()
    except sqlite3.OperationalError:
        if names(connection):
            raise
        return None
    return row


def read_schema(connection: sqlite3.Connection, table: str) -> ViewSchema:
    """The schema of a view; `QueryError` not_found with near names if it doesn't exist."""
    found = entry(connection, table)
    if found is None:
        raise unknown_table(table, names(connection))
    return schema(*found[:2])


def names(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The names of all views, sorted."""
    exists = "SELECT 1 FROM sqlite_master WHERE name = '_keyfold_views'"
    if connection.execute(exists).fetchone() is None:
        return ()
    return tuple(name for (name,) in connection.execute("SELECT name FROM _keyfold_views ORDER BY name"))


def has(connection: sqlite3.Connection, table: str, batch_id: int) -> bool:
    """Whether a view has applied a batch already."""
    found = entry(connection, table)
    if found is None:
        raise RunError("the view was dropped during a batch", table=table, batch=batch_id)
    return found[2] is not None and batch_id <= found[2]


def add(connection: sqlite3.Connection, schema: ViewSchema) -> None:
    """Creates an empty view."""
    if schema.table.lower().startswith("sqlite_") or schema.table.lower() == "_keyfold_views":
        raise BadName(
            f"{schema.table!r} is not allowed as the name of a view: SQLite reserves it", hint="another name"
        )
    connection.execute(sql.create_table(schema))
    values = (schema.table, schema.to_json())
    connection.execute("INSERT INTO _keyfold_views (name, schema) VALUES (?, ?)", values)


def remove(connection: sqlite3.Connection, table: str) -> None:
    """Removes a view and its rows, if it exists."""
    connection.execute(f"DROP TABLE IF EXISTS {sql.quote(table)}")
    connection.execute("DELETE FROM _keyfold_views WHERE name = ?", (table,))


def confirm(connection: sqlite3.Connection, given: ViewSchema) -> None:
    """Refuses a schema that differs from the view's; stores the new help text."""
    require_same_columns(read_schema(connection, given.table), given)
    values = (given.to_json(), given.table)
    connection.execute("UPDATE _keyfold_views SET schema = ? WHERE name = ?", values)


@functools.lru_cache(maxsize=256)
def schema(table: str, text: str) -> ViewSchema:
    """The parsed schema, cached by its text."""
    return ViewSchema.from_json(table, text)
