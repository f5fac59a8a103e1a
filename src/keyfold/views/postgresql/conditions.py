"""Filters and orders as PostgreSQL's SQL. Values are always parameters with a type, names always quoted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.views.contract import OrderBy, Where
from keyfold.views.postgresql.codec import Codec, codec_of
from keyfold.views.postgresql.escaped_text import like_pattern
from keyfold.views.postgresql.names import identifier, quoted
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.query.where_parser import filter_of
from keyfold.views.schema import AT, BATCH, Column, ViewSchema
from keyfold.views.types.numbers import Integer
from keyfold.views.types.scalars import Floating

# A literal between two values of a type is replaced by the lower one, which turns < and >= around.
_BETWEEN_VALUES: Final = {"<": "<=", "<=": "<=", ">": ">", ">=": ">"}
_MOST_VALUES: Final = 30_000
_BEYOND: Final = "9223372036854775808::double precision"


def where_sql(where: Where, schema: ViewSchema) -> tuple[str, list[Any]]:
    """The condition of a `where` and its parameters; `TRUE` without a filter."""
    params: list[Any] = []
    condition = _condition(filter_of(where, schema), schema, params)
    if len(params) > _MOST_VALUES:
        hint = "`in (...)` with all values, which counts as one"
        raise QueryError(f"where has more than {_MOST_VALUES:,} values", where=schema.table, hint=hint)
    return condition, params


def order_sql(order_by: OrderBy, schema: ViewSchema) -> str:
    """The terms of ORDER BY; nulls are the lowest."""
    return ", ".join(
        _term(term.column, term.descending, schema) for term in filters.whole_order(order_by, schema)
    )


def name_of(column: Column) -> str:
    """A column, quoted."""
    return quoted(identifier(column.name))


def codec_in(column: Column, schema: ViewSchema) -> Codec:
    """The codec of a column of a view."""
    return codec_of(column.type, column in schema.keys)


def _term(column: Column, descending: bool, schema: ViewSchema) -> str:
    name = f"{name_of(column)} DESC" if descending else name_of(column)
    if column in (*schema.keys, BATCH, AT):
        # Never null, and the index of the key is only used for an order that does not speak of nulls.
        return name
    return f"{name} NULLS {'LAST' if descending else 'FIRST'}"


def _condition(item: Filter, schema: ViewSchema, params: list[Any]) -> str:
    match item:
        case All(items):
            return (
                f"({' AND '.join(_condition(each, schema, params) for each in items)})" if items else "TRUE"
            )
        case AnyOf(items):
            return (
                f"({' OR '.join(_condition(each, schema, params) for each in items)})" if items else "FALSE"
            )
        case Not(inside):
            return f"(NOT {_condition(inside, schema, params)})"
        case IsNull(column):
            return f"({name_of(column)} IS NULL)"
        case Like(column, pattern):
            operator, text = like_pattern(pattern)
            params.append(text)
            return f"({name_of(column)} {operator} %s::text)"
        case OneOf(column, values):
            return _one_of(column, values, schema, params)
        case Compare(column, op, Column() as other):
            return f"({_columns(column, op, other)})"
        case Compare(column, op, value):
            return _compare(column, op, value, schema, params)


def _one_of(column: Column, values: Sequence[Any], schema: ViewSchema, params: list[Any]) -> str:
    found = [column.type.floor(value) for value in values]
    codec = codec_in(column, schema)
    equal = [codec.parameter(floor) for floor, exact in found if exact]
    if not equal:
        return _never(column)
    params.append(equal)
    return f"({name_of(column)} = ANY (%s::{codec.name}[]))"


def _compare(column: Column, op: str, value: Any, schema: ViewSchema, params: list[Any]) -> str:
    floor, exact = column.type.floor(value)
    if not exact and op in ("=", "<>"):
        return _never(column) if op == "=" else _always(column)
    if not exact and isinstance(floor, float) and math.isinf(floor):
        # The type has no such value, and no infinity.
        return _always(column) if (floor > 0) == (op in ("<", "<=")) else _never(column)
    codec = codec_in(column, schema)
    params.append(codec.parameter(floor))
    return f"({name_of(column)} {op if exact else _BETWEEN_VALUES[op]} %s::{codec.name})"


def _columns(one: Column, op: str, other: Column) -> str:
    """The comparison of two columns; of an integer and a float without rounding, as floats would."""
    a, b = name_of(one), name_of(other)
    if isinstance(one.type, Integer) and isinstance(other.type, Floating):
        return _mixed(a, op, f"{b}::double precision")
    if isinstance(one.type, Floating) and isinstance(other.type, Integer):
        return _mixed(b, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), f"{a}::double precision")
    return f"{a} {op} {b}"


def _mixed(whole: str, op: str, floating: str) -> str:
    return (
        f"CASE WHEN {whole}::double precision <> {floating} THEN {whole}::double precision {op} {floating}"
        f" WHEN {floating} >= {_BEYOND} THEN 0 {op} 1 ELSE {whole} {op} {floating}::bigint END"
    )


def _always(column: Column) -> str:
    # True for values and unknown for nulls, like any comparison, so that NOT leaves nulls out.
    return f"({name_of(column)} = {name_of(column)})"


def _never(column: Column) -> str:
    return f"({name_of(column)} <> {name_of(column)})"
