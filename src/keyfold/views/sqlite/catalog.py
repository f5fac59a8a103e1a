"""The catalog of a SQLite store: name, columns and position of each view, in `_keyfold_views`."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any, Final

from keyfold.errors import BadName, QueryError, RunError, did_you_mean
from keyfold.views.schema import ViewSchema
from keyfold.views.sqlite import sql

Row = tuple[Any, ...]
_TABLE: Final = """CREATE TABLE IF NOT EXISTS _keyfold_views (
    name TEXT PRIMARY KEY COLLATE NOCASE, schema TEXT NOT NULL, batch INTEGER, at INTEGER, watermark INTEGER
) WITHOUT ROWID"""


def prepare(connection: sqlite3.Connection) -> None:
    """Makes an empty catalog unless there is one."""
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


def known(connection: sqlite3.Connection, table: str) -> ViewSchema:
    """The schema of a view; `QueryError` not_found with near names if there is none."""
    found = entry(connection, table)
    if found is None:
        others = names(connection)
        hint = did_you_mean(table, others, f"one of: {', '.join(others)}" if others else "no views yet")
        raise QueryError(f"unknown table {table!r}", reason="not_found", hint=hint)
    return schema(*found[:2])


def names(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The views there are, sorted."""
    exists = "SELECT 1 FROM sqlite_master WHERE name = '_keyfold_views'"
    if connection.execute(exists).fetchone() is None:
        return ()
    return tuple(name for (name,) in connection.execute("SELECT name FROM _keyfold_views ORDER BY name"))


def has(connection: sqlite3.Connection, table: str, batch_id: int) -> bool:
    """Whether a view has a batch already."""
    found = entry(connection, table)
    if found is None:
        raise RunError("the view was dropped while a batch was under way", table=table, batch=batch_id)
    return found[2] is not None and batch_id <= found[2]


def add(connection: sqlite3.Connection, schema: ViewSchema) -> None:
    """Makes an empty view."""
    if schema.table.lower().startswith("sqlite_") or schema.table.lower() == "_keyfold_views":
        raise BadName(f"a view can't be named {schema.table!r}", hint="a name that is not SQLite's own")
    connection.execute(sql.create_table(schema))
    values = (schema.table, schema.to_json())
    connection.execute("INSERT INTO _keyfold_views (name, schema) VALUES (?, ?)", values)


def remove(connection: sqlite3.Connection, table: str) -> None:
    """Removes a view and its rows, if it is there."""
    connection.execute(f"DROP TABLE IF EXISTS {sql.quoted(table)}")
    connection.execute("DELETE FROM _keyfold_views WHERE name = ?", (table,))


def confirm(connection: sqlite3.Connection, given: ViewSchema) -> None:
    """Refuses a schema that differs from the view's; takes over its help text."""
    known_as = known(connection, given.table)
    difference = known_as.difference(given)
    if known_as.table != given.table:
        difference = f"it is spelled {known_as.table} here, {given.table} there"
    if difference is not None:
        hint = "another name for the table, or rebuild its view"
        raise RunError("the view has other columns", given=difference, hint=hint, table=given.table)
    values = (given.to_json(), given.table)
    connection.execute("UPDATE _keyfold_views SET schema = ? WHERE name = ?", values)


@functools.lru_cache(maxsize=256)
def schema(table: str, text: str) -> ViewSchema:
    """The parsed schema, kept by its text."""
    return ViewSchema.from_json(table, text)
