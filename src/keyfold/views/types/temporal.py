"""Timestamps, dates, times of day and day-time intervals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from keyfold.plan import durations
from keyfold.views import arrow as pa
from keyfold.views.types import epoch
from keyfold.views.types.base import LONG_MAX, LONG_MIN, DataType, explain_errors


@dataclass(frozen=True)
class Timestamp(DataType):
    """timestamp (an instant) and timestamp_ntz (local date and time, without a zone)."""

    zoned: bool
    canonical_arrow_name = "int64"

    def __str__(self) -> str:
        return "timestamp" if self.zoned else "timestamp_ntz"

    @property
    def arrow(self) -> pa.DataType:
        return pa.timestamp("us", tz="UTC" if self.zoned else None)

    def to_python(self, value: int) -> datetime | str:
        return epoch.from_micros(value, zoned=self.zoned)

    def to_canonical(self, value: Any) -> int:
        micros, zoned = _instant(value)
        if zoned and not self.zoned:
            raise ValueError("a timestamp_ntz has no zone: 2026-01-01T00:00:00")
        if not LONG_MIN <= micros <= LONG_MAX:
            raise ValueError("the year is outside the range of Spark's timestamps")
        return micros


@dataclass(frozen=True)
class Date(DataType):
    """date."""

    spark_name = "date"
    arrow_name = "date32"
    canonical_arrow_name = "int32"

    def to_python(self, value: int) -> date | str:
        return epoch.from_days(value)

    def to_canonical(self, value: Any) -> int:
        if isinstance(value, date) and not isinstance(value, datetime):
            return epoch.to_days(value)
        with explain_errors("a date is written 2026-01-31"):
            return epoch.parse_days(value)


@dataclass(frozen=True)
class Clock(DataType):
    """time of day."""

    precision: int
    arrow_name = "time64[ns]"
    canonical_arrow_name = "int64"

    def __str__(self) -> str:
        return f"time({self.precision})"

    def to_python(self, value: int) -> time:
        return epoch.nanos_clock(value)

    def to_canonical(self, value: Any) -> int:
        with explain_errors("a time of day is written 13:30:00.5"):
            return epoch.clock_nanos(value if isinstance(value, time) else time.fromisoformat(value))


@dataclass(frozen=True)
class DayTime(DataType):
    """interval day to second, and its shorter forms, which differ in name alone."""

    fields: str
    arrow_name = "duration[us]"
    canonical_arrow_name = "int64"

    def __str__(self) -> str:
        return f"interval {self.fields}"

    def to_python(self, value: int) -> timedelta:
        return timedelta(microseconds=value)

    def to_canonical(self, value: Any) -> int:
        if isinstance(value, timedelta):
            return value // timedelta(microseconds=1)
        with explain_errors("an interval is a timedelta, or text such as '1 hour 30 minutes'"):
            return durations.millis(value, zero=True) * 1000


def _instant(value: Any) -> tuple[int, bool]:
    if isinstance(value, datetime):
        return epoch.to_micros(value), value.tzinfo is not None
    if isinstance(value, date):
        return epoch.to_days(value) * epoch.DAY, False
    with explain_errors("a timestamp is written 2026-01-31T13:30:00Z"):
        return epoch.parse_micros(value)
