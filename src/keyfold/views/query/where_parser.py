"""Parses a `where` into a filter; text by recursive descent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from keyfold.errors import QueryError
from keyfold.views.contract import Where
from keyfold.views.query import filters
from keyfold.views.query.filters import All, AnyOf, Compare, Filter, IsNull, Like, Not, OneOf
from keyfold.views.schema import Column, ViewSchema

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?!\w)
      | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
      | (?P<name>`(?:[^`]|``)+`)
      | (?P<word>[^\W\d]\w*)
      | (?P<op><>|<=|>=|!=|==|[=<>(),+-])
    )""",
    re.VERBOSE,
)
_SPELLINGS: Final = {"==": "=", "!=": "<>"}
_FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_KEYWORDS: Final = frozenset({"and", "or", "not", "in", "like", "is", "null", "between", "true", "false"})
_DEEPEST: Final = 100


def filter_of(where: Where, schema: ViewSchema) -> Filter:
    """The filter of a `where`; one that is always true without it."""
    if where is None or (isinstance(where, str) and not where.strip()):
        return All(())
    if isinstance(where, str):
        return parse_where(where, schema)
    if isinstance(where, Mapping):
        return filters.by_example(where, schema)
    if isinstance(where, Filter):
        return where
    hint = "a string such as \"revenue > 100\", or a dict such as {'region': 'eu'}"
    raise QueryError("where must be a string or a dict", where=schema.table, given=repr(where), hint=hint)


def parse_where(text: str, schema: ViewSchema) -> Filter:
    """The filter of a text; a syntax error is a `QueryError` bad_request that says where."""
    return _Parser(text, schema).whole()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


@dataclass(frozen=True)
class _Literal:
    value: Any


class _Parser:
    def __init__(self, text: str, schema: ViewSchema) -> None:
        self._text = text
        self._schema = schema
        self._tokens = self._split()
        self._next = 0
        self._depth = 0

    def whole(self) -> Filter:
        found = self._or()
        if self._token.kind != "end":
            self._fail("'and', 'or' or the end")
        return found

    def _split(self) -> list[_Token]:
        tokens, position = [], 0
        while position < len(self._text.rstrip()):
            match = _TOKEN.match(self._text, position)
            if match is None:
                position += len(self._text[position:]) - len(self._text[position:].lstrip())
                self._refuse(position, f"has a syntax error at character {position + 1}")
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", len(self._text))]

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _is(self, *words: str) -> bool:
        return self._token.kind in ("word", "op") and self._token.text.lower() in words

    def _take(self, *words: str) -> bool:
        found = self._is(*words)
        self._next += found
        return found

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._fail(repr(word))

    def _fail(self, expected: str) -> NoReturn:
        at = self._token.at
        self._refuse(at, f"at character {at + 1}: expected {expected}, found {self._token}")

    def _refuse(self, at: int, problem: str) -> NoReturn:
        # The rest of the text shows the position without counting characters.
        given = (
            self._text if at == 0 or at >= len(self._text) else f"{self._text}\nfrom {self._text[at:]!r} on"
        )
        hint = "for example: revenue > 100 and region in ('eu', 'us')"
        raise QueryError(f"where {problem}", where=self._schema.table, given=given, hint=hint)

    def _or(self) -> Filter:
        items = [self._and()]
        while self._take("or"):
            items.append(self._and())
        return items[0] if len(items) == 1 else AnyOf(tuple(items))

    def _and(self) -> Filter:
        items = [self._not()]
        while self._take("and"):
            items.append(self._not())
        return items[0] if len(items) == 1 else All(tuple(items))

    def _not(self) -> Filter:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(self._token.at, f"is nested more than {_DEEPEST} deep")
        try:
            return Not(self._not()) if self._take("not") else self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Filter:
        if self._take("("):
            inside = self._or()
            self._expect(")")
            return inside
        left = self._operand()
        if isinstance(left, Column):
            return self._after_column(left)
        op = self._operator()
        right = self._operand()
        if not isinstance(right, Column):
            self._refuse(0, "compares two literals and no column")
        return self._compare(right, _FLIPPED[op], left)

    def _after_column(self, column: Column) -> Filter:
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        if self._is("not", "in", "like", "between"):
            negated = self._take("not")
            found = self._test(filters.comparable(column, self._schema))
            return Not(found) if negated else found
        if self._is(*_FLIPPED, *_SPELLINGS):
            op = self._operator()
            return self._compare(column, op, self._operand())
        bare = filters.truth(column)
        if bare is None:
            self._fail("a comparison such as =, <, in, like or is null")
        return bare

    def _test(self, column: Column) -> Filter:
        if self._take("in"):
            self._expect("(")
            values = [self._value(column)]
            while self._take(","):
                values.append(self._value(column))
            self._expect(")")
            return OneOf(column, tuple(values))
        if self._take("between"):
            low = self._value(column)
            self._expect("and")
            return All((Compare(column, ">=", low), Compare(column, "<=", self._value(column))))
        self._expect("like")
        if not filters.is_string(column):
            self._refuse(self._token.at, f"uses like on {column.name}, a {column.type}")
        return Like(column, self._value(column))

    def _compare(self, column: Column, op: str, other: Column | _Literal) -> Filter:
        filters.comparable(column, self._schema)
        if isinstance(other, _Literal):
            return Compare(column, op, filters.check_literal(column, other.value, self._schema))
        filters.comparable(other, self._schema)
        if not filters.comparable_types(column, other):
            names = f"{column.name} ({column.type}) with {other.name} ({other.type})"
            self._refuse(0, f"compares {names}: the types differ")
        return Compare(column, op, other)

    def _operator(self) -> str:
        if not self._is(*_FLIPPED, *_SPELLINGS):
            self._fail("a comparison such as = or <")
        text = self._token.text
        self._next += 1
        return _SPELLINGS.get(text, text)

    def _value(self, column: Column) -> Any:
        start = self._next
        found = self._operand()
        if isinstance(found, Column):
            self._next = start
            self._fail("a value")
        return filters.check_literal(column, found.value, self._schema)

    def _operand(self) -> Column | _Literal:
        token = self._token
        if self._is("+", "-") or token.kind == "number":
            return self._number()
        if token.kind == "end" or token.kind == "op" or self._is(*(_KEYWORDS - {"true", "false", "null"})):
            self._fail("a column or a value")
        self._next += 1
        if token.kind == "text":
            return _Literal(_unquote(token.text))
        if token.kind == "name":
            return filters.column_of(_unquote(token.text), self._schema)
        word = token.text.lower()
        if word in ("true", "false", "null"):
            return _Literal(None if word == "null" else word == "true")
        if word in ("date", "timestamp", "timestamp_ntz") and self._token.kind == "text":
            return self._operand()
        if self._is("("):
            self._refuse(token.at, f"calls {token.text}(...), and filters have no functions")
        return filters.column_of(token.text, self._schema)

    def _number(self) -> _Literal:
        sign = "-" if self._take("-") else ""
        if not sign:
            self._take("+")
        if self._token.kind != "number":
            self._fail("a number")
        token = self._token
        self._next += 1
        try:
            # Decimal keeps every digit until the column's type converts it.
            return _Literal(Decimal(sign + token.text))
        except InvalidOperation:
            self._refuse(token.at, "has a number out of range")


def _unquote(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)
