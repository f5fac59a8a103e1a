"""Dates and timestamps as integers since the epoch, and as ISO text outside the years 1 to 9999."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

DAY: Final = 86_400_000_000
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = _EPOCH.replace(tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_FIRST: Final = (datetime.min - _EPOCH) // timedelta(microseconds=1)
_LAST: Final = (datetime.max - _EPOCH) // timedelta(microseconds=1)
# The Gregorian calendar repeats every 400 years, so any year can be computed as one that Python knows.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_YEAR: Final = re.compile(r"([+-]?\d{4,})(-.*)", re.DOTALL)


def to_micros(value: datetime) -> int:
    """Microseconds since the epoch; a datetime without a zone is taken as UTC.

    >>> to_micros(datetime(1970, 1, 2))
    86400000000
    """
    epoch = _EPOCH if value.tzinfo is None else _EPOCH_UTC
    return (value - epoch) // timedelta(microseconds=1)


def from_micros(micros: int, *, zoned: bool) -> datetime | str:
    """The datetime, aware in UTC if `zoned`; outside Python's range ISO text: "+12026-01-01T00:00:00Z".

    >>> from_micros(86_400_000_000, zoned=True)
    datetime.datetime(1970, 1, 2, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if _FIRST <= micros <= _LAST:
        return (_EPOCH_UTC if zoned else _EPOCH) + timedelta(microseconds=micros)
    days, rest = divmod(micros, DAY)
    clock = (_EPOCH + timedelta(microseconds=rest)).time().isoformat()
    return f"{_far_day(days)}T{clock}{'Z' if zoned else ''}"


def from_days(days: int) -> date | str:
    """The date; ISO text outside Python's range."""
    ordinal = days + _EPOCH_DAY
    if 1 <= ordinal <= date.max.toordinal():
        return date.fromordinal(ordinal)
    return _far_day(days)


def to_days(value: date) -> int:
    """Days since the epoch."""
    return value.toordinal() - _EPOCH_DAY


def parse_micros(text: str) -> tuple[int, bool]:
    """Microseconds of an ISO text, and whether it named a zone; any year, as `from_micros` writes them.

    >>> parse_micros("1970-01-02T01:00:00+01:00")
    (86400000000, True)
    """
    near, cycles = _into_range(text)
    value = datetime.fromisoformat(near)
    return to_micros(value) + cycles * _CYCLE_DAYS * DAY, value.tzinfo is not None


def parse_days(text: str) -> int:
    """Days of an ISO date, any year."""
    near, cycles = _into_range(text)
    return to_days(date.fromisoformat(near)) + cycles * _CYCLE_DAYS


def clock_nanos(value: time) -> int:
    """Nanoseconds since midnight."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1000


def nanos_clock(nanos: int) -> time:
    """The time of day; Spark's has microseconds at most, so nothing is lost."""
    return (_EPOCH + timedelta(microseconds=nanos // 1000)).time()


def _far_day(days: int) -> str:
    cycles, rest = divmod(days, _CYCLE_DAYS)
    near = date.fromordinal(rest + _EPOCH_DAY)
    year = near.year + cycles * _CYCLE_YEARS
    return f"{_year_text(year)}-{near.month:02d}-{near.day:02d}"


def _year_text(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}"


def _into_range(text: str) -> tuple[str, int]:
    text = text.strip()
    match = _YEAR.fullmatch(text)
    if match is None:
        return text, 0
    cycles, year = divmod(int(match[1]) - 1970, _CYCLE_YEARS)
    return f"{year + 1970}{match[2]}", cycles
