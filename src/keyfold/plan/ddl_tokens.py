"""Splits a schema in DDL into its words, brackets and quoted texts; comments are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""
    (?P<nothing> \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<name>  `(?:[^`]|``)*` )
    | (?P<text>  [rR]'[^']*' | [rR]"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" )
    | (?P<mark>  [<>(),:] )
    | (?P<word>  (?:(?!--|/\*)[^\s<>(),:`'"])+ )
    | (?P<open>  . )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of a schema, and where it is."""

    kind: str
    """`name` in backticks, `text` in quotes, `mark`, `word`, or `open`: a quote that is not closed."""
    text: str
    start: int
    end: int


def tokens(ddl: str) -> list[Token]:
    """What a schema consists of.

    >>> [token.text for token in tokens("a decimal(3,2) comment 'in €' -- rounded")]
    ['a', 'decimal', '(', '3', ',', '2', ')', 'comment', "'in €'"]
    """
    found = _TOKEN.finditer(ddl)
    return [
        Token(match.lastgroup or "", match[0], match.start(), match.end())
        for match in found
        if match.lastgroup != "nothing"
    ]


def outside_brackets(found: Sequence[Token]) -> Iterator[Token]:
    """The tokens that are in no brackets, nor brackets themselves."""
    depth = 0
    for token in found:
        depth += token.text in ("<", "(")
        if depth == 0:
            yield token
        depth -= token.text in (">", ")")
