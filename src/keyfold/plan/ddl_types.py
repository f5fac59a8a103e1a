"""Whether the types of a schema in DDL have names that Spark knows; it judges all else about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from keyfold.errors import BadOption, choice, near
from keyfold.plan.ddl_tokens import Token

_WORDS: Final = (
    "array bigint binary boolean byte char character date dec decimal double float geography geometry int "
    "integer interval long map numeric real short smallint string struct time timestamp timestamp_ltz "
    "timestamp_ntz tinyint varchar variant void"
)
NAMES: Final = frozenset(_WORDS.split())
"""As Spark's parser has them; `tests/engine/rows/test_schemas.py` asks it."""
_ELSEWHERE: Final = {
    "datetime": "timestamp",
    "float64": "double",
    "int32": "int",
    "int64": "bigint",
    "list": "array",
    "str": "string",
    "text": "string",
}
"""Names that other systems have for a type, and that resemble another one of Spark's."""
_USUAL: Final = ("string", "int", "bigint", "double", "decimal(10,2)", "boolean", "date", "timestamp")


def check(kind: Sequence[Token], given: str, where: object, what: str) -> None:
    """Refuses a type, or one that is nested in it, whose name Spark does not know."""
    for name in _names(kind):
        if name.lower() in NAMES:
            continue
        found = _ELSEWHERE.get(name.lower()) or near(name, sorted(NAMES))
        raise BadOption(
            f"{what} has an unknown type {name!r}",
            where=where,
            given=given,
            hint=choice(_USUAL) if found is None else f"did you mean {found!r}?",
        )


def _names(kind: Sequence[Token]) -> Iterator[str]:
    """The names of a type and of the types nested in it, as far as they are plain words."""
    holders, before, awaited = list[str](), "", "type"
    for token in kind:
        if token.text in ("<", "("):
            holders.append(before if token.text == "<" else "(")
            awaited = _first_in(holders[-1])
        elif token.text in (">", ")"):
            holders = holders[:-1]
            awaited = ""
        elif token.text == ",":
            awaited = _first_in(holders[-1] if holders else "")
        elif awaited == "field":
            awaited = "type"
        elif awaited == "type" and token.text != ":":
            if token.kind == "word" and re.fullmatch(r"\w+", token.text):
                yield token.text
            awaited = ""
        before = token.text.lower()


def _first_in(holder: str) -> str:
    """What the first word in brackets, or after a comma, is: a field or a type; in round ones neither."""
    return "" if holder in ("", "(") else "field" if holder == "struct" else "type"
