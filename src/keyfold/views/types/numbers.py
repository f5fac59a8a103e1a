"""Spark's exact numbers: integers, decimals and month counts."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any, Final

from keyfold.views import arrow as pa
from keyfold.views.types.base import LONG_MAX, LONG_MIN, DataType, Sql

_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_INFINITY: Final = re.compile(r"\s*([+-]?)inf(?:inity)?\s*", re.IGNORECASE)
_ARROW: Final = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64"}
_SHORT: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_INTEGER_DIGITS: Final = 18


@dataclass(frozen=True)
class Integer(DataType):
    """byte, short, integer, long."""

    name: str
    same = True
    plain = True

    def __str__(self) -> str:
        return _SHORT[self.name]

    def to_json(self) -> str:
        return self.name

    @property
    def arrow(self) -> pa.DataType:
        return pa.type_for_alias(_ARROW[self.name])

    def read(self, value: Any) -> int:
        number = _number(value)
        if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
            raise ValueError("a whole number is written 42")
        if not LONG_MIN <= int(number) <= LONG_MAX:
            raise ValueError(f"a {self} is at most {LONG_MAX}")
        return int(number)

    def bound(self, value: Any) -> tuple[Sql, bool]:
        number = _number(value)
        # SQLite compares integers with infinities rightly, so they stand for all that is out of range.
        if number.is_infinite() or number.adjusted() > 20 or not LONG_MIN <= number <= LONG_MAX:
            return float("inf") if number > 0 else float("-inf"), False
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

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    def to_json(self) -> str:
        return str(self)

    @property
    def arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)

    @property
    def wide(self) -> bool:
        """Whether the unscaled number may be too big for 64 bits, and is kept as text."""
        return self.precision > _INTEGER_DIGITS

    def encode(self, column: pa.Array) -> list[Sql]:
        import numpy as np

        words = _halves(column)
        low: list[int] = words[:, 0].tolist()
        if self.wide:
            high: list[int] = words[:, 1].view(np.int64).tolist()
            values: list[Sql] = [self._text((h << 64) + w) for h, w in zip(high, low, strict=True)]
        else:
            values = words[:, 0].view(np.int64).tolist()
        if column.null_count:
            for place in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                values[place] = None
        return values

    def decode(self, value: int | str) -> Decimal:
        unscaled = int(value) - 10**self.precision if isinstance(value, str) else value
        return Decimal(f"{unscaled}E{-self.scale}")

    def read(self, value: Any) -> Decimal:
        number = _number(value)
        if number.is_finite() and number.adjusted() <= self.precision:
            shifted = _shift(number, self.scale)
            if shifted == shifted.to_integral_value() and abs(int(shifted)) < 10**self.precision:
                return self.decode(int(shifted))
        raise ValueError(f"a {self} has at most {self.scale} digits after the point: 12.50")

    def literal(self, value: Any) -> Sql:
        return None if value is None else self._sql(int(_shift(self.read(value), self.scale)))

    def bound(self, value: Any) -> tuple[Sql, bool]:
        number = _number(value)
        if number.is_infinite() or number.adjusted() > self.precision:
            return self._beyond(number), False
        shifted = _shift(number, self.scale)
        floor = int(shifted.to_integral_value(ROUND_FLOOR))
        if abs(floor) >= 10**self.precision:
            return self._beyond(number), False
        return self._sql(floor), floor == shifted

    def to_leaf(self, value: Decimal) -> str:
        return str(value)

    def from_leaf(self, leaf: str) -> Decimal:
        return Decimal(leaf)

    def _sql(self, unscaled: int) -> Sql:
        return self._text(unscaled) if self.wide else unscaled

    def _text(self, unscaled: int) -> str:
        # Shifted so that it is never negative: then texts of one width sort as the numbers do.
        return f"{unscaled + 10**self.precision:0{self.precision + 1}d}"

    def _beyond(self, number: Decimal) -> Sql:
        above = number > 0
        if self.wide:
            return "~" if above else ""
        return float("inf") if above else float("-inf")


def _halves(column: pa.Array) -> Any:
    """The two 64-bit halves of each number of a decimal128 column, as unsigned integers, low half first."""
    import numpy as np

    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros((len(column), 2), dtype=np.uint64)
    words = np.frombuffer(buffer, dtype="<u8", count=2 * (column.offset + len(column)))
    return words.reshape(-1, 2)[column.offset :]


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
