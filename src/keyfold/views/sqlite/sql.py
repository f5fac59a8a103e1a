"""Filters, orders and statements as SQLite's SQL. Values are always parameters, names always quoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.views.contract import OrderBy, Where
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.query.where_parser import filter_of
from keyfold.views.schema import AT, BATCH, Column, ViewSchema
from keyfold.views.types.base import Sql

# A literal between two values of a type is given as the lower one; then < and >= must turn.
_BETWEEN_VALUES: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_GLOB_SPECIAL: Final = "*?["


def quoted(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def where_sql(where: Where, schema: ViewSchema) -> tuple[str, list[Sql]]:
    """The condition of a `where` and its parameters; `1` if there is none."""
    params: list[Sql] = []
    return _condition(filter_of(where, schema), params), params


def order_sql(order_by: OrderBy, schema: ViewSchema) -> str:
    """The terms of ORDER BY; the key comes last, so that the order is the same at every read."""
    given = filters.order(order_by, schema) if order_by else ()
    terms = [quoted(term.column.name) + (" DESC" if term.descending else "") for term in given]
    own = dict.fromkeys((*schema.order, *(key.name for key in schema.keys)))
    return ", ".join([*terms, *map(quoted, own)])


@dataclass(frozen=True)
class Selection:
    """A statement that reads rows, with its parameters and the columns it gives."""

    sql: str
    params: Sequence[Sql]
    columns: tuple[Column, ...]


def select_rows(
    schema: ViewSchema, where: Where, order_by: OrderBy, limit: int | None, columns: Sequence[str] | None
) -> Selection:
    """The statement of a scan; all that is wrong with its arguments is a `QueryError` bad_request."""
    chosen = schema.all if columns is None else tuple(filters.column_of(name, schema) for name in columns)
    condition, params = where_sql(where, schema)
    sql = f"{_select(schema, chosen)} WHERE {condition} ORDER BY {order_sql(order_by, schema)}"
    if limit is not None:
        if not isinstance(limit, int) or isinstance(limit, bool) or not 0 <= limit < 2**63:
            hint = "a whole number, zero or more"
            raise QueryError("limit can't be used", where=schema.table, given=f"limit={limit!r}", hint=hint)
        sql += " LIMIT ?"
        params.append(limit)
    return Selection(sql, params, chosen)


def count_rows(schema: ViewSchema, where: Where) -> tuple[str, list[Sql]]:
    """The statement that counts rows of a view, and its parameters."""
    statement = f"SELECT count(*) FROM {quoted(schema.table)}"
    if where is None:
        # SQLite counts faster where there is no condition, not even one that is always true.
        return statement, []
    condition, params = where_sql(where, schema)
    return f"{statement} WHERE {condition}", params


def select_row(schema: ViewSchema, key: Sequence[Any]) -> Selection:
    """The statement that reads the row of a key."""
    names = ", ".join(column.name for column in schema.keys)
    if len(key) != len(schema.keys):
        raise QueryError(
            f"the key has {len(schema.keys)} part{'s' * (len(schema.keys) > 1)}, {len(key)} given",
            where=schema.table,
            given=", ".join(map(repr, key)),
            hint=names,
        )
    params = [filters.key_part(column, part, schema) for column, part in zip(schema.keys, key, strict=True)]
    return Selection(f"{_select(schema, schema.all)} WHERE {_is_key(schema)}", params, schema.all)


def create_table(schema: ViewSchema) -> str:
    """The statement that makes the table of a view."""
    # No declared types: SQLite would convert values to them, -0.0 to 0 for one. No rowid: rows lie in the
    # key's own tree, which saves a second tree to keep in step.
    names = ", ".join(quoted(column.name) for column in schema.all)
    keys = ", ".join(quoted(column.name) for column in schema.keys)
    return f"CREATE TABLE {quoted(schema.table)} ({names}, PRIMARY KEY ({keys})) WITHOUT ROWID"


def upsert(schema: ViewSchema, rows: int, batch: int, at: int) -> str:
    """The statement that writes so many rows; batch and time are the same for all, so no parameters."""
    given = len(schema.keys) + len(schema.columns)
    one = f"({'?, ' * given}{batch:d}, {at:d})"
    changed = [quoted(column.name) for column in (*schema.columns, BATCH, AT)]
    return (
        f"INSERT INTO {quoted(schema.table)} VALUES {', '.join([one] * rows)} "
        f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in changed)}"
    )


def delete(schema: ViewSchema) -> str:
    """The statement that removes the row of a key."""
    return f"DELETE FROM {quoted(schema.table)} WHERE {_is_key(schema)}"


def delete_rows(schema: ViewSchema, where: Where) -> tuple[str, list[Sql]]:
    """The statement that removes rows of a view, and its parameters."""
    condition, params = where_sql(where, schema)
    return f"DELETE FROM {quoted(schema.table)} WHERE {condition}", params


def _select(schema: ViewSchema, columns: Sequence[Column]) -> str:
    names = ", ".join(quoted(column.name) for column in columns) or "NULL"
    return f"SELECT {names} FROM {quoted(schema.table)}"


def _is_key(schema: ViewSchema) -> str:
    return " AND ".join(f"{quoted(column.name)} = ?" for column in schema.keys)


def _condition(item: Filter, params: list[Sql]) -> str:
    match item:
        case All(items):
            return f"({' AND '.join(_condition(each, params) for each in items)})" if items else "1"
        case AnyOf(items):
            return f"({' OR '.join(_condition(each, params) for each in items)})"
        case Not(inside):
            return f"(NOT {_condition(inside, params)})"
        case IsNull(column):
            return f"({quoted(column.name)} IS NULL)"
        case Like(column, pattern):
            params.append(_glob(pattern))
            return f"({quoted(column.name)} GLOB ?)"
        case OneOf(column, values):
            return _one_of(column, values, params)
        case Compare(column, op, Column() as other):
            return f"({quoted(column.name)} {op} {quoted(other.name)})"
        case Compare(column, op, value):
            return _compare(column, op, value, params)


def _one_of(column: Column, values: Sequence[Any], params: list[Sql]) -> str:
    bounds = [column.type.bound(value) for value in values]
    equal = [bound for bound, exact in bounds if exact]
    if not equal:
        return _never(column)
    params.extend(equal)
    return f"({quoted(column.name)} IN ({', '.join('?' * len(equal))}))"


def _compare(column: Column, op: str, value: Any, params: list[Sql]) -> str:
    bound, exact = column.type.bound(value)
    name = quoted(column.name)
    if not exact and op in ("=", "<>"):
        return _never(column) if op == "=" else f"({name} = {name})"
    params.append(bound)
    return f"({name} {op if exact else _BETWEEN_VALUES[op]} ?)"


def _never(column: Column) -> str:
    # False for a value and unknown for null, as any comparison is, so that NOT leaves nulls out.
    return f"({quoted(column.name)} <> {quoted(column.name)})"


def _glob(pattern: str) -> str:
    """A LIKE pattern for GLOB, which minds case as Spark's LIKE does; SQLite's LIKE doesn't."""
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
