"""Compares the rows of a view in two SQLite files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from keyfold.views.contract import Difference, Where
from keyfold.views.schema import ViewSchema
from keyfold.views.sqlite import sql
from keyfold.views.sqlite.codec import codec_of


def differences(view: Path, other: Path, schema: ViewSchema, where: Where, limit: int) -> list[Difference]:
    """The first keys, in order, whose rows of the view differ from those of the other file."""
    columns = ", ".join(sql.quote(column.name) for column in (*schema.keys, *schema.columns))
    keys = ", ".join(sql.quote(key.name) for key in schema.keys)
    condition, params = sql.where_sql(where, schema)
    name = sql.quote(schema.table)
    here = f"SELECT {columns} FROM main.{name} WHERE {condition}"
    there = f"SELECT {columns} FROM other.{name} WHERE {condition}"
    statement = f"""
        WITH missing AS ({there} EXCEPT {here}), extra AS ({here} EXCEPT {there})
        SELECT {keys}, min(side), max(side) FROM (
            SELECT {keys}, 0 AS side FROM missing UNION ALL SELECT {keys}, 1 AS side FROM extra
        ) GROUP BY {keys} ORDER BY {keys} LIMIT ?"""
    with closing(sqlite3.connect(f"file:{quote(str(view))}?mode=ro", uri=True)) as connection:
        connection.execute("ATTACH ? AS other", (f"file:{quote(str(other))}?mode=ro",))
        found = connection.execute(statement, [*params, *params, *params, *params, limit]).fetchall()
    return [_difference(schema, row) for row in found]


def _difference(schema: ViewSchema, row: tuple[Any, ...]) -> Difference:
    key = {
        column.name: None if value is None else codec_of(column.type).decode(value)
        for column, value in zip(schema.keys, row, strict=False)
    }
    first, last = row[-2:]
    problem = "has other values" if first != last else "is missing" if first == 0 else "should not be there"
    return Difference(key, problem)
