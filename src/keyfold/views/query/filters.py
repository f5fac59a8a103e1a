"""Filters and orders as a tree whose columns and values are checked: what `where` and `order_by` mean.

    revenue > 100 and region in ('eu', 'us') and name like 'a%' and not (at < '2026-01-01' or x is null)

Names in backticks may contain any character; strings are quoted with ' or ", a quote inside is doubled. A
literal is read as the type of the column that it is compared with. Keywords and names are case-insensitive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.views.schema import Column, ViewSchema
from keyfold.views.types.numbers import Integer, Months
from keyfold.views.types.scalars import Boolean, Floating, Text


@dataclass(frozen=True)
class Compare:
    """Compares a column with a literal or with another column."""

    column: Column
    op: str
    value: Any


@dataclass(frozen=True)
class OneOf:
    """A column equals one of several literals."""

    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Like:
    """A string column matches a pattern: % is any text, _ one character, \\ escapes either."""

    column: Column
    pattern: str


@dataclass(frozen=True)
class IsNull:
    """A column is null."""

    column: Column


@dataclass(frozen=True)
class Not:
    """Negation in three-valued logic: of unknown, unknown."""

    item: Filter


@dataclass(frozen=True)
class All:
    """Conjunction; true if empty."""

    items: tuple[Filter, ...]


@dataclass(frozen=True)
class AnyOf:
    """Disjunction."""

    items: tuple[Filter, ...]


Filter = Compare | OneOf | Like | IsNull | Not | All | AnyOf


@dataclass(frozen=True)
class Order:
    """A column to sort by."""

    column: Column
    descending: bool = False


_ORDER: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s+(asc|desc))?\s*", re.IGNORECASE)
_COMMA: Final = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def by_example(example: Mapping[str, Any], schema: ViewSchema) -> Filter:
    """The filter of a dict: each column equals its value, is one of a list, or is null."""
    return All(tuple(_equals(name, value, schema) for name, value in example.items()))


def order(order_by: str | Sequence[str], schema: ViewSchema) -> tuple[Order, ...]:
    """The columns to sort by, from "revenue desc, region" or a list of such items."""
    items = _COMMA.split(order_by) if isinstance(order_by, str) else list(order_by)
    return tuple(_order_item(item, schema) for item in items)


def whole_order(order_by: str | Sequence[str] | None, schema: ViewSchema) -> tuple[Order, ...]:
    """All columns that a read is sorted by; the key comes last, so that every read has the same order."""
    given = order(order_by, schema) if order_by else ()
    own = (Order(column_of(name, schema)) for name in (*schema.order, *(key.name for key in schema.keys)))
    # Behind a column, the same one decides nothing.
    found: dict[str, Order] = {}
    for term in (*given, *own):
        found.setdefault(term.column.name, term)
    return tuple(found.values())


def column_of(name: str, schema: ViewSchema, what: str = "column") -> Column:
    """The column of that name, in any case."""
    for column in schema.all:
        if column.name.lower() == name.lower():
            return column
    names = [column.name for column in schema.all]
    hint = did_you_mean(name, names, choice(names))
    raise QueryError(f"unknown {what} {name!r}", where=schema.table, hint=hint)


def check_literal(column: Column, value: Any, schema: ViewSchema) -> Any:
    """The literal, if the type of its column accepts it."""
    if value is None:
        hint = f"{column.name} is null, or {column.name} is not null"
        raise QueryError(
            "nothing compares with null", where=schema.table, given=f"{column.name} and null", hint=hint
        )
    try:
        column.type.floor(value)
    except ValueError as error:
        shown = value if isinstance(value, Decimal) else repr(value)
        raise QueryError(
            "the value does not fit the column's type",
            where=schema.table,
            given=f"{shown} for {column.name}, a {column.type}",
            hint=str(error),
        ) from None
    return value


def key_part(column: Column, part: Any, schema: ViewSchema) -> Any:
    """The canonical value of a part of a key."""
    try:
        if part is None:
            raise ValueError("a key is never null")
        return column.type.to_canonical(part)
    except ValueError as error:
        given = f"{part!r} for {column.name}, a {column.type}"
        what = f"the key part {column.name} does not fit its type"
        raise QueryError(what, where=schema.table, given=given, hint=str(error)) from None


def checked_key(key: Sequence[Any], schema: ViewSchema) -> list[Any]:
    """The canonical values of all parts of a key."""
    if len(key) != len(schema.keys):
        raise QueryError(
            f"the key has {len(schema.keys)} part{'s' * (len(schema.keys) > 1)}, {len(key)} given",
            where=schema.table,
            given=", ".join(map(repr, key)),
            hint=", ".join(column.name for column in schema.keys),
        )
    return [key_part(column, part, schema) for column, part in zip(schema.keys, key, strict=True)]


def checked_limit(limit: Any, schema: ViewSchema) -> int:
    """The limit, if it is a number of rows."""
    if isinstance(limit, int) and not isinstance(limit, bool) and 0 <= limit < 2**63:
        return limit
    hint = "a whole number, zero or more"
    raise QueryError(
        "limit must be a number of rows", where=schema.table, given=f"limit={limit!r}", hint=hint
    )


def comparable(column: Column, schema: ViewSchema) -> Column:
    """The column, unless it is an array, map or struct."""
    if column.type.scalar:
        return column
    given = f"{column.name} {column.type}"
    hint = "a column of a scalar type; on arrays, maps and structs only `is null` is supported"
    raise QueryError("arrays, maps and structs have no order", where=schema.table, given=given, hint=hint)


def comparable_types(one: Column, other: Column) -> bool:
    """Whether the two columns can be compared with each other."""
    numbers = all(
        isinstance(column.type, Integer | Floating) and not isinstance(column.type, Months)
        for column in (one, other)
    )
    return numbers or one.type == other.type


def truth(column: Column) -> Compare | None:
    """A boolean column by itself as a condition."""
    return Compare(column, "=", True) if isinstance(column.type, Boolean) else None


def is_string(column: Column) -> bool:
    """Whether the column is a string."""
    return isinstance(column.type, Text)


def _equals(name: str, value: Any, schema: ViewSchema) -> Filter:
    if not isinstance(name, str):
        raise QueryError("a column name must be a string", where=schema.table, given=repr(name))
    column = column_of(name, schema)
    if value is None:
        return IsNull(column)
    comparable(column, schema)
    if isinstance(value, list | tuple | set | frozenset):
        # A set has another order in every process, and equal filters are written alike.
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return OneOf(column, tuple(check_literal(column, item, schema) for item in items))
    return Compare(column, "=", check_literal(column, value, schema))


def _order_item(item: Any, schema: ViewSchema) -> Order:
    match = _ORDER.fullmatch(item) if isinstance(item, str) else None
    if match is None:
        hint = "columns, each with asc or desc if needed: 'revenue desc, region'"
        raise QueryError("order_by is not a list of columns", where=schema.table, given=repr(item), hint=hint)
    column = column_of(match[1].replace("``", "`") if match[1] else match[2], schema, "column in order_by")
    return Order(comparable(column, schema), (match[3] or "").lower() == "desc")
