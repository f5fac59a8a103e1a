"""How each of Spark's types is stored in SQLite and read back as Python values.

| Spark | SQLite |
|---|---|
| byte, short, integer, long | INTEGER |
| float, double | REAL; NaN as TEXT, which sorts above all numbers as in Spark |
| decimal up to 18 digits | INTEGER, unscaled |
| decimal with more digits | TEXT of fixed width, which sorts as the numbers do |
| boolean | INTEGER |
| string, char, varchar | TEXT |
| binary | BLOB |
| date, timestamp, timestamp_ntz, time, intervals | INTEGER, as the canonical value |
| array, map, struct | TEXT, JSON (`nested_json`) |
| void | NULL |
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

from keyfold.views import arrow as pa
from keyfold.views.types import nested_json
from keyfold.views.types.base import DataType
from keyfold.views.types.nested import Nested
from keyfold.views.types.numbers import Exact
from keyfold.views.types.scalars import Boolean, Floating

Sql = int | float | str | bytes | None
_INTEGER_DIGITS: Final = 18


class Codec:
    """The canonical value as it is; the base of the other codecs."""

    def __init__(self, type: DataType) -> None:
        self.type: Any = type

    @property
    def stores_python_values(self) -> bool:
        """Whether the SQLite value, when not null, is the Python value, so that `decode` can be skipped."""
        return bool(self.type.same_in_python)

    def encode(self, column: pa.Array) -> list[Sql]:
        """The SQLite values of a column of canonical values."""
        values: list[Sql] = column.to_pylist()
        return values

    def encode_value(self, value: Any) -> Sql:
        """The SQLite value of a canonical value; infinities stand for literals outside the type's range."""
        sql: Sql = value
        return sql

    def decode(self, value: Any) -> Any:
        """The Python value of a SQLite value that is not null."""
        return self.type.to_python(value)

    def floor(self, value: Any) -> tuple[Sql, bool]:
        """For comparisons: the SQLite value of the type's `floor`, and whether it equals the literal."""
        canonical, exact = self.type.floor(value)
        return self.encode_value(canonical), exact


class BooleanCodec(Codec):
    """0 and 1."""

    stores_python_values = False

    def decode(self, value: int) -> bool:
        return bool(value)


class FloatingCodec(Codec):
    """REAL, and NaN as text: SQLite would turn NaN into null."""

    stores_python_values = False

    def encode(self, column: pa.Array) -> list[Sql]:
        values: list[Sql] = column.to_pylist()
        if pa.compute.any(pa.compute.is_nan(column)).as_py():
            return [self.encode_value(value) for value in values]
        return values

    def encode_value(self, value: Any) -> Sql:
        return "NaN" if value != value else value

    def decode(self, value: float | str) -> float:
        return float(value)


class ExactCodec(Codec):
    """The unscaled number: an integer if it fits 64 bits, else text of fixed width."""

    stores_python_values = False

    def __init__(self, type: Exact) -> None:
        super().__init__(type)
        self._wide = type.precision > _INTEGER_DIGITS
        self._offset = 10**type.precision

    def encode(self, column: pa.Array) -> list[Sql]:
        import numpy as np

        words = _halves(column)
        low: list[int] = words[:, 0].tolist()
        if self._wide:
            high: list[int] = words[:, 1].view(np.int64).tolist()
            values: list[Sql] = [self._text((h << 64) + w) for h, w in zip(high, low, strict=True)]
        else:
            values = words[:, 0].view(np.int64).tolist()
        if column.null_count:
            for index in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                values[index] = None
        return values

    def encode_value(self, value: Any) -> Sql:
        if isinstance(value, float) and math.isinf(value):
            # "~" sorts above all digits, the empty text below.
            return value if not self._wide else "~" if value > 0 else ""
        unscaled: int = self.type.to_unscaled(value)
        return self._text(unscaled) if self._wide else unscaled

    def decode(self, value: int | str) -> Any:
        return self.type.from_unscaled(int(value) - self._offset if isinstance(value, str) else value)

    def _text(self, unscaled: int) -> str:
        # Shifted so that it is never negative: then texts of one width sort as the numbers do.
        return f"{unscaled + self._offset:0{self.type.precision + 1}d}"


class NestedCodec(Codec):
    """JSON text."""

    stores_python_values = False

    def __init__(self, type: Nested) -> None:
        super().__init__(type)
        self._to_leaf, self._from_leaf = nested_json.to_leaf(type), nested_json.from_leaf(type)

    def encode(self, column: pa.Array) -> list[Sql]:
        return [None if value is None else self.encode_value(value) for value in column.to_pylist()]

    def encode_value(self, value: Any) -> Sql:
        return nested_json.dumps(self._to_leaf(value))

    def decode(self, value: str) -> Any:
        return self._from_leaf(nested_json.loads(value))


@functools.lru_cache(maxsize=1024)
def codec_of(type: DataType) -> Codec:
    """The codec of a type."""
    if isinstance(type, Boolean):
        return BooleanCodec(type)
    if isinstance(type, Floating):
        return FloatingCodec(type)
    if isinstance(type, Exact):
        return ExactCodec(type)
    return NestedCodec(type) if isinstance(type, Nested) else Codec(type)


def _halves(column: pa.Array) -> Any:
    """The two 64-bit halves of each number of a decimal128 column, as unsigned integers, low half first."""
    import numpy as np

    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros((len(column), 2), dtype=np.uint64)
    words = np.frombuffer(buffer, dtype="<u8", count=2 * (column.offset + len(column)))
    return words.reshape(-1, 2)[column.offset :]
