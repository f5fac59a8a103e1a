"""Durations: "30 days", "1 hour 30 minutes", "2h" or a timedelta as milliseconds, and back."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Final, NoReturn

from keyfold.errors import BadDuration, near

_UNITS: Final = (
    (("day", "days", "d"), 86_400_000),
    (("hour", "hours", "hr", "hrs", "h"), 3_600_000),
    (("minute", "minutes", "min", "mins", "m"), 60_000),
    (("second", "seconds", "sec", "secs", "s"), 1_000),
    (("ms", "millisecond", "milliseconds", "millis", "msec", "msecs"), 1),
)
_WEEK: Final = (("week", "weeks", "w"), 604_800_000)
_MILLIS: Final = {name: size for names, size in (_WEEK, *_UNITS) for name in names}
_NOT_FIXED: Final = frozenset({"month", "months", "mon", "mons", "year", "years", "yr", "yrs", "y"})
_TOO_FINE: Final = frozenset(
    {"us", "microsecond", "microseconds", "micros", "ns", "nanosecond", "nanoseconds", "nanos"}
)
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*(?:,|\band\b)?")
_NUMBER: Final = re.compile(r"\s*-?[0-9]+(?:\.[0-9]+)?\s*")
_EXAMPLES: Final = "a duration such as '30 days', '500 ms' or '1 hour 30 minutes'"
# Event time plus a duration must stay far inside Spark's 64-bit microseconds.
_LONGEST: Final = 10_000 * 366 * 86_400_000


def millis(value: object, what: str = "duration", *, zero: bool = False, where: object = None) -> int:
    """The duration in milliseconds. `what` names the option in errors; zero is refused unless allowed.

    >>> millis("1 hour 30 minutes")
    5400000
    """
    ms = _exact(value, what, where)
    if ms < 0:
        _refuse(f"{what} must not be negative", value, where, _EXAMPLES)
    if ms == 0 and not zero:
        _refuse(f"{what} must not be zero", value, where, "a longer duration")
    if ms > _LONGEST:
        _refuse(f"{what} is longer than 10,000 years", value, where, "a shorter duration")
    return ms


def text(ms: int) -> str:
    """The duration as text that `millis` reads back, in units from days down to milliseconds.

    >>> text(5_400_000)
    '1 hour 30 minutes'
    """
    parts = []
    for names, size in _UNITS:
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {names[0] if count == 1 or size == 1 else names[1]}")
    return " ".join(parts) or "0 ms"


def _exact(value: object, what: str, where: object) -> int:
    if isinstance(value, timedelta):
        if value.microseconds % 1000:
            _refuse(f"{what} is finer than a millisecond", value, where, "whole milliseconds")
        return value // timedelta(milliseconds=1)
    if isinstance(value, str):
        return _parse(value, what, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value == 0:
            return 0
        _refuse(f"{what} is a number without a unit", value, where, f"'{value} seconds' or another unit")
    return _refuse(f"{what} is not a duration", value, where, _EXAMPLES)


def _parse(value: str, what: str, where: object) -> int:
    if value.strip().startswith("-"):
        _refuse(f"{what} must not be negative", value, where, _EXAMPLES)
    if _NUMBER.fullmatch(value):
        if not float(value.strip()):
            return 0
        _refuse(
            f"{what} is a number without a unit", value, where, f"'{value.strip()} seconds' or another unit"
        )
    total, seen, position = Decimal(0), set[int](), 0
    while position < len(value.rstrip()):
        part = _PART.match(value, position)
        if part is None:
            return _refuse(f"{what} is not a duration", value, where, _EXAMPLES)
        size = _size(part[2], value, what, where)
        if size in seen:
            _refuse(f"{what} has the unit {part[2]!r} twice", value, where, _EXAMPLES)
        seen.add(size)
        total += Decimal(part[1]) * size
        position = part.end()
    if not seen:
        _refuse(f"{what} is empty", value, where, _EXAMPLES)
    if total != int(total):
        _refuse(f"{what} is finer than a millisecond", value, where, "whole milliseconds")
    return int(total)


def _size(unit: str, value: str, what: str, where: object) -> int:
    lower = unit.lower()
    # A single capital M means month in other tools; reading it as minutes would be a silent error.
    if lower in _NOT_FIXED or unit == "M":
        hint = "days, for example '30 days' or '365 days'"
        _refuse(f"{what} must not be in months or years, which have no fixed length", value, where, hint)
    if lower in _TOO_FINE or "µ" in lower:
        _refuse(f"{what} is finer than a millisecond", value, where, "whole milliseconds")
    if lower not in _MILLIS:
        found = near(lower, [name for name in _MILLIS if len(name) > 2])
        hint = f"did you mean {found!r}?" if found else _EXAMPLES
        _refuse(f"{what} has an unknown unit {unit!r}", value, where, hint)
    return _MILLIS[lower]


def _refuse(problem: str, value: object, where: object, hint: str) -> NoReturn:
    raise BadDuration(problem, where=where, given=repr(value), hint=hint)
