"""Parses the column names and types of a schema in DDL; Spark judges the types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from keyfold.errors import BadOption, choice, did_you_mean
from keyfold.plan.validate import arguments

_COLUMN: Final = re.compile(r"(?:`((?:[^`]|``)+)`|([^\s:`]+))(?:\s*:\s*|\s+|(?<=`))(\S.*)", re.DOTALL)
_OPEN: Final = {"<": ">", "(": ")"}
_AFTER_TYPE: Final = ("not", "comment", "default", "generated", "collate", "with", "without")
_HINT: Final = "names and types: 'id string, amount decimal(10,2), at timestamp'"


def columns(ddl: object, where: object = None, what: str = "schema") -> dict[str, str]:
    """Types by column name. `what` names the option in errors.

    >>> columns("id string, m map<string,int>")
    {'id': 'string', 'm': 'map<string,int>'}
    """
    if not isinstance(ddl, str):
        raise BadOption(f"{what} must be a string", where=where, given=repr(ddl), hint=_HINT)
    if not ddl.strip():
        raise BadOption(f"{what} is empty", where=where, given=repr(ddl), hint=_HINT)
    pairs = [_column(piece.strip(), where, what) for piece in _pieces(ddl, where, what)]
    arguments.unique((name for name, _ in pairs), f"{what} column", where)
    return dict(pairs)


def time_column(time: object, known: dict[str, str], where: object = None) -> str:
    """The event-time column, spelled as in the schema; any name if the columns aren't known."""
    if isinstance(time, str) and time.strip() and not known:
        return time
    by_lower = {name.lower(): name for name in known}
    found = by_lower.get(time.lower()) if isinstance(time, str) else None
    if found is None:
        hint = did_you_mean(str(time), known, choice(known))
        raise BadOption("time must be a column of the schema", where=where, given=f"time={time!r}", hint=hint)
    if not known[found].lower().startswith("timestamp"):
        raise BadOption(
            f"time must be a column of type timestamp; {found!r} is {known[found]}",
            where=where,
            given=f"time={time!r}",
            hint=f"schema='... {found} timestamp'",
        )
    return found


def _column(piece: str, where: object, what: str) -> tuple[str, str]:
    match = _COLUMN.fullmatch(piece)
    if match is None:
        problem = (
            f"{what} column {piece!r} has no type" if piece else f"{what} has an empty column between commas"
        )
        raise BadOption(problem, where=where, hint=_HINT)
    quoted, plain, kind = match.groups()
    name = quoted.replace("``", "`") if quoted else plain
    _refuse_missing_comma(name, kind.strip(), where, what)
    return name, kind.strip()


def _refuse_missing_comma(name: str, kind: str, where: object, what: str) -> None:
    """Refuses a type that the next column's name and type follow."""
    bare, inner = kind, 1
    while inner:
        bare, inner = re.subn(r"[<(][^<>()]*[>)]", "", bare)
    first, *words = bare.split()
    if [word.lower() for word in words[:2]] == ["not", "null"]:
        del words[:2]
    if words and first.lower() != "interval" and words[0].lower() not in _AFTER_TYPE:
        raise BadOption(
            f"{what} lacks a comma: column {name!r} has the type {kind!r}",
            where=where,
            given=f"{name} {kind}",
            hint=f"a comma before {words[0]!r}",
        )


def _pieces(ddl: str, where: object, what: str) -> Iterator[str]:
    """Splits at commas outside of brackets, backticks and quoted comments."""
    start, expected, quote = 0, list[str](), ""
    for position, char in enumerate(ddl):
        if quote:
            quote = "" if char == quote else quote
        elif char in "`'\"":
            quote = char
        elif char in _OPEN:
            expected.append(_OPEN[char])
        elif char in ">)":
            if not expected or expected.pop() != char:
                raise BadOption(f"{what} has an unmatched {char!r}", where=where, given=repr(ddl), hint=_HINT)
        elif char == "," and not expected:
            yield ddl[start:position]
            start = position + 1
    if quote or expected:
        missing = quote or expected[-1]
        raise BadOption(f"{what} is missing a closing {missing!r}", where=where, given=repr(ddl), hint=_HINT)
    yield ddl[start:]
