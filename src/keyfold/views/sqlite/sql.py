"""Filters, orders and statements as SQLite's SQL. Values are always bound parameters, names always quoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.views.contract import OrderBy, Where
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.query.where_parser import filter_of
from keyfold.views.schema import AT, BATCH, Column, ViewSchema
from keyfold.views.sqlite.codec import Sql, codec_of

# A literal between two values of a type is replaced by the lower one, which turns < and >= around.
_BETWEEN_VALUES: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_GLOB_SPECIAL: Final = "*?["


def quote(name: str) -> str:
    """A name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def where_sql(where: Where, schema: ViewSchema) -> tuple[str, list[Sql]]:
    """The condition of a `where` and its parameters; `1` without a filter."""
    params: list[Sql] = []
    return _condition(filter_of(where, schema), params), params


def order_sql(order_by: OrderBy, schema: ViewSchema) -> str:
    """The terms of ORDER BY."""
    terms = filters.whole_order(order_by, schema)
    return ", ".join(quote(term.column.name) + (" DESC" if term.descending else "") for term in terms)


@dataclass(frozen=True)
class Selection:
    """A SELECT statement, its parameters and the columns it returns."""

    sql: str
    params: Sequence[Sql]
    columns: tuple[Column, ...]


def select_rows(
    schema: ViewSchema, where: Where, order_by: OrderBy, limit: int | None, columns: Sequence[str] | None
) -> Selection:
    """The statement of a scan; wrong arguments are a `QueryError` bad_request."""
    chosen = schema.all if columns is None else tuple(filters.column_of(name, schema) for name in columns)
    condition, params = where_sql(where, schema)
    sql = f"{_select(schema, chosen)} WHERE {condition} ORDER BY {order_sql(order_by, schema)}"
    if limit is not None:
        sql += " LIMIT ?"
        params.append(filters.checked_limit(limit, schema))
    return Selection(sql, params, chosen)


def count_rows(schema: ViewSchema, where: Where) -> tuple[str, list[Sql]]:
    """The statement that counts rows of a view, and its parameters."""
    statement = f"SELECT count(*) FROM {quote(schema.table)}"
    if where is None:
        # SQLite counts faster without a condition, even one that is always true.
        return statement, []
    condition, params = where_sql(where, schema)
    return f"{statement} WHERE {condition}", params


def select_row(schema: ViewSchema, key: Sequence[Any]) -> Selection:
    """The statement that reads the row of a key."""
    parts = zip(schema.keys, filters.checked_key(key, schema), strict=True)
    params = [codec_of(column.type).encode_value(part) for column, part in parts]
    return Selection(f"{_select(schema, schema.all)} WHERE {_is_key(schema)}", params, schema.all)


def create_table(schema: ViewSchema) -> str:
    """The statement that creates the table of a view."""
    # No declared types: SQLite would convert values to them, for example -0.0 to 0. WITHOUT ROWID: rows are
    # stored in the primary key's B-tree, which saves a second tree.
    names = ", ".join(quote(column.name) for column in schema.all)
    keys = ", ".join(quote(column.name) for column in schema.keys)
    return f"CREATE TABLE {quote(schema.table)} ({names}, PRIMARY KEY ({keys})) WITHOUT ROWID"


def upsert(schema: ViewSchema, rows: int, batch: int, at: int) -> str:
    """The statement that upserts `rows` rows; batch and time are the same for all, so no parameters."""
    given = len(schema.keys) + len(schema.columns)
    one = f"({'?, ' * given}{batch:d}, {at:d})"
    changed = [quote(column.name) for column in (*schema.columns, BATCH, AT)]
    return (
        f"INSERT INTO {quote(schema.table)} VALUES {', '.join([one] * rows)} "
        f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in changed)}"
    )


def delete(schema: ViewSchema) -> str:
    """The statement that deletes the row of a key."""
    return f"DELETE FROM {quote(schema.table)} WHERE {_is_key(schema)}"


def delete_rows(schema: ViewSchema, where: Where) -> tuple[str, list[Sql]]:
    """The statement that deletes the rows that match, and its parameters."""
    condition, params = where_sql(where, schema)
    return f"DELETE FROM {quote(schema.table)} WHERE {condition}", params


def _select(schema: ViewSchema, columns: Sequence[Column]) -> str:
    names = ", ".join(quote(column.name) for column in columns) or "NULL"
    return f"SELECT {names} FROM {quote(schema.table)}"


def _is_key(schema: ViewSchema) -> str:
    return " AND ".join(f"{quote(column.name)} = ?" for column in schema.keys)


def _condition(item: Filter, params: list[Sql]) -> str:
    match item:
        case All(items):
            return f"({' AND '.join(_condition(each, params) for each in items)})" if items else "1"
        case AnyOf(items):
            return f"({' OR '.join(_condition(each, params) for each in items)})"
        case Not(inside):
            return f"(NOT {_condition(inside, params)})"
        case IsNull(column):
            return f"({quote(column.name)} IS NULL)"
        case Like(column, pattern):
            params.append(_glob(pattern))
            return f"({quote(column.name)} GLOB ?)"
        case OneOf(column, values):
            return _one_of(column, values, params)
        case Compare(column, op, Column() as other):
            return f"({quote(column.name)} {op} {quote(other.name)})"
        case Compare(column, op, value):
            return _compare(column, op, value, params)


def _one_of(column: Column, values: Sequence[Any], params: list[Sql]) -> str:
    found = [codec_of(column.type).floor(value) for value in values]
    equal = [floor for floor, exact in found if exact]
    if not equal:
        return _never(column)
    params.extend(equal)
    return f"({quote(column.name)} IN ({', '.join('?' * len(equal))}))"


def _compare(column: Column, op: str, value: Any, params: list[Sql]) -> str:
    floor, exact = codec_of(column.type).floor(value)
    name = quote(column.name)
    if not exact and op in ("=", "<>"):
        return _never(column) if op == "=" else f"({name} = {name})"
    params.append(floor)
    return f"({name} {op if exact else _BETWEEN_VALUES[op]} ?)"


def _never(column: Column) -> str:
    # False for values and unknown for nulls, like any comparison, so that NOT leaves nulls out.
    return f"({quote(column.name)} <> {quote(column.name)})"


def _glob(pattern: str) -> str:
    """A LIKE pattern for GLOB, which is case-sensitive as Spark's LIKE is; SQLite's LIKE isn't."""
    result, plain = [], False
    for char in pattern:
        if char == "\\" and not plain:
            plain = True
            continue
        if plain or char not in "%_":
            result.append(f"[{char}]" if char in _GLOB_SPECIAL else char)
        else:
            result.append("*" if char == "%" else "?")
        plain = False
    return "".join(result) + ("\\" if plain else "")
