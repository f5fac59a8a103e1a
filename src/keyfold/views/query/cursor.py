"""A cursor: after which row of an order a reader continues, as text that the reader hands back.

It has the values by which the last row was sorted, and of which table, order and filter they are; so the next
page is a filter on these columns, whatever the store. A row that does not change is on exactly one page,
whatever is written between two pages.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Not, Order
from keyfold.views.schema import Column, ViewSchema
from keyfold.views.types import nested_json

VERSION: Final = 1
_LONGEST: Final = 1 << 20
_HINT: Final = (
    "give back `next` of the page before, as it was; without a cursor a read begins at the first row"
)


@dataclass(frozen=True)
class Keyset:
    """The rows of a table that match a filter, in an order in which no two rows are equal."""

    schema: ViewSchema
    order: tuple[Order, ...]
    where: Filter

    def cursor(self, row: Mapping[str, Any]) -> str:
        """The cursor behind a row."""
        values = [_leaf(term.column, row[term.column.name]) for term in self.order]
        text = json.dumps([*self._head(), values], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def after(self, cursor: str) -> Filter:
        """The rows behind a cursor; one that was not made for this read is a `QueryError` bad_request."""
        values = self._values(cursor)
        # Implied by the steps, and what an index on the first column needs to begin at it.
        first, value = self.order[0], values[0]
        bound = [] if value is None or first.descending else [Compare(first.column, ">=", value)]
        return All((*bound, AnyOf(tuple(self._steps(values))), self.where))

    def _steps(self, values: Sequence[Any]) -> Iterator[Filter]:
        """For each column: it comes behind its value, and the columns before it are equal to theirs."""
        equal: list[Filter] = []
        for term, value in zip(self.order, values, strict=True):
            behind = _behind(term, value)
            if behind is not None:
                yield All((*equal, behind))
            equal.append(IsNull(term.column) if value is None else Compare(term.column, "=", value))

    def _head(self) -> list[Any]:
        terms = [f"{'-' if term.descending else '+'}{term.column.name}" for term in self.order]
        digest = hashlib.sha256(repr(self.where).encode("utf-8", "backslashreplace")).hexdigest()
        return [VERSION, self.schema.table, terms, digest[:16]]

    def _values(self, cursor: str) -> list[Any]:
        version, *head, leaves = self._read(cursor)
        if version != VERSION:
            raise self._refusal(f"has version {version!r}, and this version of keyfold reads {VERSION}")
        made_for = ("table", "order", "filter")
        for what, given, own in zip(made_for, head, self._head()[1:], strict=True):
            if given != own:
                raise self._refusal(f"was made for another {what}")
        if len(leaves) != len(self.order):
            raise self._refusal("is damaged")
        return [self._value(term.column, leaf) for term, leaf in zip(self.order, leaves, strict=True)]

    def _read(self, cursor: str) -> list[Any]:
        try:
            padded = cursor + "=" * (-len(cursor) % 4)
            if len(cursor) > _LONGEST:
                raise ValueError("it is too long")
            document = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (TypeError, ValueError, RecursionError):
            document = None
        if not isinstance(document, list) or len(document) != 5 or not isinstance(document[-1], list):
            raise self._refusal("is damaged")
        return document

    def _value(self, column: Column, leaf: Any) -> Any:
        if leaf is None and column not in self.schema.keys:
            return None
        try:
            value = nested_json.from_leaf(column.type)(leaf)
            column.type.to_canonical(value)  # for its error, also of a key that is null
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
            raise self._refusal(f"has a value that does not fit {column.name}, a {column.type}") from None
        return value

    def _refusal(self, why: str) -> QueryError:
        return QueryError(f"the cursor {why}", where=self.schema.table, hint=_HINT)


def _leaf(column: Column, value: Any) -> Any:
    return None if value is None else nested_json.to_leaf(column.type)(column.type.to_canonical(value))


def _behind(term: Order, value: Any) -> Filter | None:
    """The values that a column has behind one; nulls are the lowest. None if there are none."""
    null = IsNull(term.column)
    if not term.descending:
        return Not(null) if value is None else Compare(term.column, ">", value)
    return None if value is None else AnyOf((Compare(term.column, "<", value), null))
