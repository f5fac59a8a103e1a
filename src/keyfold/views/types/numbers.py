"""Exact numbers: integers, decimals and intervals of months."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, Final

from keyfold.views import arrow as pa
from keyfold.views.types.base import LONG_MAX, LONG_MIN, DataType

_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_INFINITY: Final = re.compile(r"\s*([+-]?)inf(?:inity)?\s*", re.IGNORECASE)
_ARROW: Final = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64"}
_SHORT: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


@dataclass(frozen=True)
class Integer(DataType):
    """byte, short, integer, long."""

    name: str
    same_in_python = True

    def __str__(self) -> str:
        return _SHORT[self.name]

    def to_json(self) -> str:
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        return pa.type_for_alias(_ARROW[self.name])

    def to_canonical(self, value: Any) -> int:
        number = _number(value)
        if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
            raise ValueError("a whole number is written 42")
        if not LONG_MIN <= int(number) <= LONG_MAX:
            raise ValueError(f"a {self} is at most {LONG_MAX}")
        return int(number)

    def floor(self, value: Any) -> tuple[int | float, bool]:
        number = _number(value)
        if number.is_infinite() or number.adjusted() > 20 or not LONG_MIN <= number <= LONG_MAX:
            return _infinity(number), False
        floor = int(number.to_integral_value(ROUND_FLOOR))
        return floor, floor == number


@dataclass(frozen=True)
class Months(Integer):
    """interval year to month and its shorter forms: a number of months, since Python has no type for it."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        return pa.int32()


@dataclass(frozen=True)
class Exact(DataType):
    """decimal(precision, scale)."""

    precision: int
    scale: int
    same_in_python = True

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    def to_canonical(self, value: Any) -> Decimal:
        number = _number(value)
        if number.is_finite() and number.adjusted() <= self.precision:
            shifted = _shift(number, self.scale)
            if shifted == shifted.to_integral_value() and abs(int(shifted)) < 10**self.precision:
                return self.from_unscaled(int(shifted))
        raise ValueError(f"a {self} has at most {self.scale} digits after the point: 12.50")

    def floor(self, value: Any) -> tuple[Decimal | float, bool]:
        number = _number(value)
        if number.is_infinite() or number.adjusted() > self.precision:
            return _infinity(number), False
        shifted = _shift(number, self.scale)
        floor = int(shifted.to_integral_value(ROUND_FLOOR))
        if abs(floor) >= 10**self.precision:
            return _infinity(number), False
        return self.from_unscaled(floor), floor == shifted

    def from_unscaled(self, unscaled: int) -> Decimal:
        """The number with that unscaled value: 1250 is 12.50 in a decimal(10,2)."""
        return Decimal(f"{unscaled}E{-self.scale}")

    def to_unscaled(self, number: Decimal) -> int:
        """The reverse of `from_unscaled`."""
        return int(_shift(number, self.scale))


def _infinity(number: Decimal) -> float:
    return math.inf if number > 0 else -math.inf


def _number(value: Any) -> Decimal:
    if isinstance(value, str):
        infinity = _INFINITY.fullmatch(value)
        if infinity:
            return Decimal(f"{infinity[1]}Infinity")
        if _NUMBER.fullmatch(value):
            with suppress(InvalidOperation):
                return Decimal(value.strip())
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        # A float means the decimal that it prints as: 0.1 finds 0.1 in a decimal column.
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if not number.is_nan():
            return number
    raise ValueError("a number is written 42 or 12.50")


def _shift(number: Decimal, places: int) -> Decimal:
    """Times a power of ten, exactly: Decimal's own scaling rounds to the context's precision."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return Decimal((sign, digits, exponent + places))
