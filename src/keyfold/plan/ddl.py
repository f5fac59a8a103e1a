"""Parses the columns of a schema in DDL, and checks the names of their types; Spark judges the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from keyfold.errors import BadOption, choice, did_you_mean
from keyfold.plan import ddl_types
from keyfold.plan.ddl_tokens import Token, outside_brackets, tokens
from keyfold.plan.validate import arguments

_CLOSES: Final = {"<": ">", "(": ")"}
_AFTER_TYPE: Final = ("not", "comment", "default", "generated", "collate", "with", "without")
_HINT: Final = "names and types: 'id string, amount decimal(10,2), at timestamp'"


def columns(ddl: object, where: object = None, what: str = "schema") -> dict[str, str]:
    """Types by column name. `what` names the option in errors.

    >>> columns("id string, m map<string,int>")
    {'id': 'string', 'm': 'map<string,int>'}
    """
    if not isinstance(ddl, str):
        raise BadOption(f"{what} must be a string", where=where, given=repr(ddl), hint=_HINT)
    found = tokens(ddl)
    if not found:
        raise BadOption(f"{what} is empty", where=where, given=repr(ddl), hint=_HINT)
    _refuse_unclosed(found, ddl, where, what)
    pairs = [_column(piece, ddl, where, what) for piece in _pieces(found)]
    arguments.unique((name for name, _ in pairs), f"{what} column", where)
    return dict(pairs)


def check_type(kind: str, where: object = None, what: str = "schema") -> None:
    """Refuses a single type whose name Spark does not know."""
    ddl_types.check(tokens(kind), kind, where, what)


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


def _column(piece: Sequence[Token], ddl: str, where: object, what: str) -> tuple[str, str]:
    if not piece:
        raise BadOption(f"{what} has an empty column between commas", where=where, hint=_HINT)
    given = ddl[piece[0].start : piece[-1].end]
    first, *kind = piece
    if kind and kind[0].text == ":":
        del kind[0]
    if not kind or first.kind == "mark":
        raise BadOption(f"{what} column {given!r} has no type", where=where, hint=_HINT)
    if kind[0].text in ("<", "("):
        problem = f"{what} column {given!r} has a type and no name"
        raise BadOption(problem, where=where, given=given, hint=f"a struct's fields alone: {_HINT}")
    name = first.text[1:-1].replace("``", "`") if first.kind == "name" else first.text
    _refuse_missing_comma(name, kind, ddl, where, what)
    ddl_types.check(kind, given, where, f"{what} column {name!r}")
    return name, ddl[kind[0].start : kind[-1].end]


def _refuse_missing_comma(name: str, kind: Sequence[Token], ddl: str, where: object, what: str) -> None:
    """Refuses a type that is followed by the next column's name and type, without a comma."""
    first, *others = outside_brackets(kind)
    if [token.text.lower() for token in others[:2]] == ["not", "null"]:
        del others[:2]
    following = others[0].text if others else ""
    if following and first.text.lower() != "interval" and following.lower() not in _AFTER_TYPE:
        text = ddl[kind[0].start : kind[-1].end]
        raise BadOption(
            f"{what} lacks a comma: column {name!r} has the type {text!r}",
            where=where,
            given=f"{name} {text}",
            hint=f"a comma before {following!r}",
        )


def _refuse_unclosed(found: Sequence[Token], ddl: str, where: object, what: str) -> None:
    """Refuses brackets and quotes that don't match."""
    expected = list[str]()
    for token in found:
        if token.kind == "open":
            expected = [token.text]
            break
        if token.text in _CLOSES:
            expected.append(_CLOSES[token.text])
        elif token.text in (">", ")") and (not expected or expected.pop() != token.text):
            problem = f"{what} has an unmatched {token.text!r}"
            raise BadOption(problem, where=where, given=repr(ddl), hint=_HINT)
    if expected:
        problem = f"{what} is missing a closing {expected[-1]!r}"
        raise BadOption(problem, where=where, given=repr(ddl), hint=_HINT)


def _pieces(found: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Splits at commas outside of brackets."""
    commas = [token for token in outside_brackets(found) if token.text == ","]
    start = 0
    for comma in commas:
        at = found.index(comma)
        yield found[start:at]
        start = at + 1
    yield found[start:]
