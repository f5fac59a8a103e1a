"""Filters of rows in a query: `region=eu&n.gt=5`, a column with an operator behind a dot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.query import filters
from keyfold.views.query.filters import All, Compare, Filter, IsNull, Like, Not, OneOf

COMPARISONS: Final = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
OPERATORS: Final = (*COMPARISONS, "like", "null")
MOST: Final = 100
"""How many filters a query has at most."""


def filter_of(given: Sequence[tuple[str, str]], schema: ViewSchema) -> Filter:
    """The rows that match all filters; a column that is given several times equals one of its values."""
    if len(given) > MOST:
        raise QueryError(
            "too many filters", where=schema.table, given=f"{len(given):,}", hint=f"at most {MOST}, or where="
        )
    equal: dict[Column, list[str]] = {}
    found: list[Filter] = []
    for name, value in given:
        column, operator = _column(name, schema)
        if operator == "eq":
            equal.setdefault(filters.comparable(column, schema), []).append(value)
        else:
            found.append(_BY_OPERATOR.get(operator, _compare)(column, operator, value, schema))
    return All((*(_equal(column, values, schema) for column, values in equal.items()), *found))


def _column(name: str, schema: ViewSchema) -> tuple[Column, str]:
    """The column and the operator of a parameter; the name of a column may have dots."""
    names = [column.name for column in schema.all]
    if name.lower() in (known.lower() for known in names):
        return filters.column_of(name, schema), "eq"
    column, dot, operator = name.rpartition(".")
    if not dot:
        hint = did_you_mean(name, names, f"a column: {', '.join(names)}")
        raise QueryError(f"unknown parameter or column {name!r}", where=schema.table, given=name, hint=hint)
    found = filters.column_of(column, schema)
    if operator not in OPERATORS:
        hint = did_you_mean(operator, OPERATORS, choice(OPERATORS))
        raise QueryError(f"unknown operator {operator!r}", where=schema.table, given=name, hint=hint)
    return found, operator


def _equal(column: Column, values: list[str], schema: ViewSchema) -> Filter:
    checked = tuple(filters.check_literal(column, value, schema) for value in values)
    return Compare(column, "=", checked[0]) if len(checked) == 1 else OneOf(column, checked)


def _compare(column: Column, operator: str, value: str, schema: ViewSchema) -> Filter:
    filters.comparable(column, schema)
    return Compare(column, COMPARISONS[operator], filters.check_literal(column, value, schema))


def _like(column: Column, operator: str, value: str, schema: ViewSchema) -> Filter:
    if not filters.is_string(column):
        given = f"{column.name}.{operator} of a {column.type}"
        raise QueryError("like is for strings", where=schema.table, given=given, hint=f"{column.name}.eq=")
    return Like(column, filters.check_literal(column, value, schema))


def _null(column: Column, operator: str, value: str, schema: ViewSchema) -> Filter:
    if value not in ("true", "false"):
        given = f"{column.name}.{operator}={value}"
        raise QueryError(
            "null is true or false", where=schema.table, given=given, hint=f"{column.name}.null=true"
        )
    return IsNull(column) if value == "true" else Not(IsNull(column))


_BY_OPERATOR: Final[dict[str, Callable[[Column, str, str, ViewSchema], Filter]]] = {
    "like": _like,
    "null": _null,
}
