"""The parameters of routes: how each is read from text, and how OpenAPI describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keyfold.errors import QueryError, choice, did_you_mean
from keyfold.plan import durations

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_DURATION: Final = r"^[0-9]{1,9}(\.[0-9]{1,3})? ?(ms|s|seconds?|m|minutes?|h|hours?|d|days?)$"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query or a part of a path; `default` is its value if it is not given."""

    name: str
    help: str
    schema: Mapping[str, Any]
    read: Callable[[str, str], Any]
    """Makes the value of a text; the first argument is the name, for errors."""
    default: Any = None
    many: bool = False
    """Whether it can be repeated; its value is then a list."""
    example: Any = None
    required: bool = False


def text(
    name: str, help: str, *, example: str | None = None, longest: int = 10_000, required: bool = False
) -> Parameter:
    """Any text; one that is required is not empty."""

    def read(name: str, given: str) -> str:
        if len(given) > longest:
            raise QueryError(
                f"{name} is too long", given=f"{len(given):,} characters", hint=f"at most {longest:,}"
            )
        return given

    schema = {"type": "string", "maxLength": longest, **({"minLength": 1} if required else {})}
    return Parameter(name, help, schema, read, example=example, required=required)


def integer(
    name: str, help: str, *, least: int, most: int = 2**53, default: int | None = None, many: bool = False
) -> Parameter:
    """A whole number between two bounds."""

    def read(name: str, given: str) -> int:
        if given.isascii() and given.isdigit() and int(given[:400]) > most:
            raise QueryError(f"{name} is at most {most:,}", given=f"{name}={given}", hint=f"{name}={most}")
        if not _INTEGER.fullmatch(given) or not least <= int(given) <= most:
            above = f"from {least:,} to {most:,}" if most < 2**53 else f"of at least {least:,}"
            raise QueryError(
                f"{name} must be a whole number {above}", given=f"{name}={given}", hint=f"{name}={least}"
            )
        return int(given)

    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}
    if default is not None:
        schema["default"] = default
    return Parameter(name, help, schema, read, default, many)


def duration(name: str, help: str, *, longest: str = "100 days", example: str = "2s") -> Parameter:
    """A duration such as 2s; its value is in seconds."""
    most = durations.millis(longest)

    def read(name: str, given: str) -> float:
        if not re.fullmatch(_DURATION, given, re.ASCII):
            raise QueryError(f"{name} is not a duration", given=f"{name}={given}", hint=f"{name}={example}")
        found = durations.millis(given, name, zero=True)
        if found > most:
            raise QueryError(
                f"{name} is at most {longest}", given=f"{name}={given}", hint=f"{name}={example}"
            )
        return found / 1000

    return Parameter(name, help, {"type": "string", "pattern": _DURATION}, read, example=example)


def one_of(name: str, help: str, words: Sequence[str], default: str | None = None) -> Parameter:
    """One of some words."""

    def read(name: str, given: str) -> str:
        if given not in words:
            hint = did_you_mean(given, words, choice(words))
            raise QueryError(f"unknown {name} {given!r}", given=f"{name}={given}", hint=hint)
        return given

    return Parameter(name, help, {"type": "string", "enum": list(words)}, read, default)


def flag(name: str, help: str) -> Parameter:
    """true or false."""
    found = one_of(name, help, ("true", "false"))
    return Parameter(name, help, {"type": "boolean"}, lambda n, given: found.read(n, given) == "true", False)


def read_query(
    given: Sequence[tuple[str, str]], known: Sequence[Parameter], *, others: bool
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values of all known parameters, and the other ones if these are allowed."""
    by_name = {one.name: one for one in known}
    values: dict[str, Any] = {one.name: one.default for one in known}
    left: list[tuple[str, str]] = []
    seen: set[str] = set()
    for name, value in given:
        parameter = by_name.get(name)
        if parameter is None:
            if not others:
                hint = did_you_mean(name, by_name, choice(by_name) if by_name else "no parameters")
                raise QueryError(f"unknown parameter {name!r}", given=f"{name}={value}", hint=hint)
            left.append((name, value))
            continue
        found = parameter.read(name, value)
        if name in seen and not parameter.many:
            raise QueryError(f"{name} is given twice", given=f"{name}={value}", hint=f"{name} once")
        values[name] = [*(values[name] or ()), found] if parameter.many else found
        seen.add(name)
    return values, left
