"""The language of `where` and `order_by`, as a small tree with every column and value checked.

    revenue > 100 and region in ('eu', 'us') and name like 'a%' and not (at < '2026-01-01' or x is null)

Names in backticks may hold anything; text is quoted with ' or ", a quote inside is doubled. A literal is read
by the type of the column it is compared with. Words and names don't depend on case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from keyfold.errors import QueryError, did_you_mean
from keyfold.views.schema import Column, ViewSchema
from keyfold.views.types.base import Sql
from keyfold.views.types.numbers import Integer, Months
from keyfold.views.types.scalars import Boolean, Floating, Text


@dataclass(frozen=True)
class Compare:
    """A column against a literal, or against another column."""

    column: Column
    op: str
    value: Any


@dataclass(frozen=True)
class OneOf:
    """A column is one of some literals."""

    column: Column
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Like:
    """A text column matches a pattern of % (any text) and _ (one character); \\ before one makes it plain."""

    column: Column
    pattern: str


@dataclass(frozen=True)
class IsNull:
    """A column is null."""

    column: Column


@dataclass(frozen=True)
class Not:
    """The opposite; of unknown, unknown."""

    item: Filter


@dataclass(frozen=True)
class All:
    """Every one holds; an empty one always does."""

    items: tuple[Filter, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one holds."""

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
    """A filter from a dict: each column equals its value, is one of a list, or is null."""
    return All(tuple(_equals(name, value, schema) for name, value in example.items()))


def order(order_by: str | Sequence[str], schema: ViewSchema) -> tuple[Order, ...]:
    """Columns to sort by, from "revenue desc, region" or a list of such items."""
    items = _COMMA.split(order_by) if isinstance(order_by, str) else list(order_by)
    return tuple(_order_item(item, schema) for item in items)


def column_of(name: str, schema: ViewSchema, what: str = "column") -> Column:
    """The column of that name, whatever its case."""
    for column in schema.all:
        if column.name.lower() == name.lower():
            return column
    names = [column.name for column in schema.all]
    hint = did_you_mean(name, names, f"one of: {', '.join(names)}")
    raise QueryError(f"unknown {what} {name!r}", where=schema.table, hint=hint)


def checked(column: Column, value: Any, schema: ViewSchema) -> Any:
    """The literal itself, once its column's type can read it."""
    if value is None:
        hint = f"{column.name} is null, or {column.name} is not null"
        raise QueryError(
            "null can't be compared", where=schema.table, given=f"{column.name} and null", hint=hint
        )
    try:
        column.type.bound(value)
    except ValueError as error:
        shown = value if isinstance(value, Decimal) else repr(value)
        raise QueryError(
            "the value doesn't fit the column",
            where=schema.table,
            given=f"{shown} for {column.name}, a {column.type}",
            hint=str(error),
        ) from None
    return value


def key_part(column: Column, part: Any, schema: ViewSchema) -> Sql:
    """What SQLite keeps for a part of a key."""
    try:
        if part is None:
            raise ValueError("a key is never null")
        return column.type.literal(part)
    except ValueError as error:
        given = f"{part!r} for {column.name}, a {column.type}"
        raise QueryError("the key can't be read", where=schema.table, given=given, hint=str(error)) from None


def comparable(column: Column, schema: ViewSchema) -> Column:
    """The column itself, unless it is an array, map or struct."""
    if column.type.scalar:
        return column
    given = f"{column.name} {column.type}"
    hint = "a column of a simple type; arrays, maps and structs can only be read, or tested with is null"
    raise QueryError("the column can't be compared or ordered", where=schema.table, given=given, hint=hint)


def alike(one: Column, other: Column) -> bool:
    """Whether values of the two columns can be compared with each other."""
    numbers = all(
        isinstance(column.type, Integer | Floating) and not isinstance(column.type, Months)
        for column in (one, other)
    )
    return numbers or one.type == other.type


def truth(column: Column) -> Compare | None:
    """A boolean column by itself as a condition."""
    return Compare(column, "=", True) if isinstance(column.type, Boolean) else None


def likeable(column: Column) -> bool:
    """Whether the column is text."""
    return isinstance(column.type, Text)


def _equals(name: str, value: Any, schema: ViewSchema) -> Filter:
    if not isinstance(name, str):
        raise QueryError("a column name must be text", where=schema.table, given=repr(name))
    column = column_of(name, schema)
    if value is None:
        return IsNull(column)
    comparable(column, schema)
    if isinstance(value, list | tuple | set | frozenset):
        return OneOf(column, tuple(checked(column, item, schema) for item in value))
    return Compare(column, "=", checked(column, value, schema))


def _order_item(item: Any, schema: ViewSchema) -> Order:
    match = _ORDER.fullmatch(item) if isinstance(item, str) else None
    if match is None:
        hint = "a column, then asc or desc if you like: 'revenue desc, region'"
        raise QueryError("order_by can't be read", where=schema.table, given=repr(item), hint=hint)
    column = column_of(match[1].replace("``", "`") if match[1] else match[2], schema, "column in order_by")
    return Order(comparable(column, schema), (match[3] or "").lower() == "desc")
