"""Dates and times as PostgreSQL writes them: "2026-01-31", "4713-01-01 12:00:00 BC"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from keyfold.errors import RunError
from keyfold.views import arrow as pa
from keyfold.views.types import epoch

_FIRST_DAY: Final = -2_440_588  # 4714-11-24 BC, where PostgreSQL's calendar begins
_LAST_DAY: Final = 2_145_042_905  # 5874897-12-31
_CYCLE_DAYS: Final = 146_097
_CYCLE_YEARS: Final = 400


class Texts(ABC):
    """The texts of one type; the canonical values are integers."""

    first: ClassVar[int]
    last: ClassVar[int]

    @abstractmethod
    def text(self, value: int) -> str:
        """The text of any value that PostgreSQL has."""

    @abstractmethod
    def near(self, column: pa.Array) -> pa.Array | None:
        """The texts of a column whose years have four digits; None if not all have."""

    def literal(self, value: int) -> str:
        """The text of a value in a comparison; beyond PostgreSQL's years, infinity."""
        if self.first <= value <= self.last:
            return self.text(value)
        return "infinity" if value > 0 else "-infinity"

    def column(self, column: pa.Array) -> pa.Array:
        """The texts of a column; values that PostgreSQL does not have are a `RunError`."""
        found = self.near(column)
        if found is not None:
            return found
        return pa.array([None if v is None else self._checked(v) for v in column.to_pylist()], pa.string())

    def _checked(self, value: int) -> str:
        if self.first <= value <= self.last:
            return self.text(value)
        raise RunError(
            "PostgreSQL's calendar has no such year",
            given=self._shown(value),
            hint="reject such rows (where=), replace the value, or keep the views in a local file",
        )

    @abstractmethod
    def _shown(self, value: int) -> str:
        """The value in ISO form."""


class _Dates(Texts):
    first, last = _FIRST_DAY, _LAST_DAY

    def text(self, value: int) -> str:
        date, era = _day(value)
        return date + era

    def near(self, column: pa.Array) -> pa.Array | None:
        return column.cast(pa.date32()).cast(pa.string()) if _within(column, 1) else None

    def _shown(self, value: int) -> str:
        return str(epoch.from_days(value))


class _Timestamps(Texts):
    first, last = _FIRST_DAY * epoch.DAY, 2**63 - 1

    def text(self, value: int) -> str:
        days, rest = divmod(value, epoch.DAY)
        date, era = _day(days)
        return f"{date} {epoch.nanos_clock(rest * 1000).isoformat()}{era}"

    def near(self, column: pa.Array) -> pa.Array | None:
        return column.cast(pa.timestamp("us")).cast(pa.string()) if _within(column, epoch.DAY) else None

    def _shown(self, value: int) -> str:
        return str(epoch.from_micros(value, zoned=False))


class _Clocks(Texts):
    first, last = 0, 86_400_000_000_000 - 1

    def text(self, value: int) -> str:
        return epoch.nanos_clock(value).isoformat()

    def near(self, column: pa.Array) -> pa.Array | None:
        return column.cast(pa.time64("ns")).cast(pa.string())

    def _shown(self, value: int) -> str:
        return self.text(value)


DATES: Final = _Dates()
TIMESTAMPS: Final = _Timestamps()
CLOCKS: Final = _Clocks()
_YEAR_1: Final = -719_162
_YEAR_10000: Final = 2_932_897


def _within(column: pa.Array, per_day: int) -> bool:
    """Whether all values are in the years 1 to 9999."""
    ends: dict[str, Any] = pa.compute.min_max(column).as_py()
    return ends["min"] is None or (ends["min"] >= _YEAR_1 * per_day and ends["max"] < _YEAR_10000 * per_day)


def _day(days: int) -> tuple[str, str]:
    """The date without its era, and the era."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    near = epoch.from_days(rest)
    assert not isinstance(near, str)
    year = near.year + cycles * _CYCLE_YEARS
    shown, era = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04d}-{near.month:02d}-{near.day:02d}", era
