"""Text, bytes, truth values, floating point numbers and the type of a bare null."""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import dataclass
from typing import Any

from keyfold.views import arrow as pa
from keyfold.views.types.base import DataType, Sql


@dataclass(frozen=True)
class Void(DataType):
    """The type of a bare null."""

    same = True
    plain = True
    # Spark sends Arrow's null type, whose casts inside lists and maps break; nulls of any type do as well.
    arrow_name = "int8"

    def __str__(self) -> str:
        return "void"

    def to_json(self) -> str:
        return "void"

    def read(self, value: Any) -> Any:
        raise ValueError("a column of type void holds nothing but null")


@dataclass(frozen=True)
class Text(DataType):
    """string, char(n), varchar(n)."""

    same = True
    plain = True
    arrow_name = "string"

    def __str__(self) -> str:
        return "string"

    def to_json(self) -> str:
        return "string"

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"a string is written in quotes: '{value}'")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("text must be Unicode without lone surrogates") from None
        return value


@dataclass(frozen=True)
class Binary(DataType):
    """binary."""

    same = True
    arrow_name = "binary"

    def __str__(self) -> str:
        return "binary"

    def to_json(self) -> str:
        return "binary"

    def read(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        try:
            return bytes.fromhex(value.removeprefix("0x").removeprefix("0X"))
        except (ValueError, AttributeError):
            raise ValueError("a binary is given as bytes, or as text in hex: 0a1bff") from None

    def to_leaf(self, value: bytes) -> str:
        return base64.b64encode(value).decode()

    def from_leaf(self, leaf: str) -> bytes:
        return base64.b64decode(leaf)


@dataclass(frozen=True)
class Boolean(DataType):
    """boolean."""

    plain = True
    arrow_name = "bool"

    def __str__(self) -> str:
        return "boolean"

    def to_json(self) -> str:
        return "boolean"

    def decode(self, value: int) -> bool:
        return bool(value)

    def read(self, value: Any) -> bool:
        word = value.strip().lower() if isinstance(value, str) else value
        if word in ("true", "false") or isinstance(word, bool):
            return word in ("true", True)
        raise ValueError("a boolean is true or false")


@dataclass(frozen=True)
class Floating(DataType):
    """float and double; SQLite would turn NaN into null, so it is kept as text."""

    single: bool

    def __str__(self) -> str:
        return "float" if self.single else "double"

    def to_json(self) -> str:
        return str(self)

    @property
    def arrow(self) -> pa.DataType:
        return pa.float32() if self.single else pa.float64()

    def encode(self, column: pa.Array) -> list[Sql]:
        values: list[Sql] = column.to_pylist()
        if pa.compute.any(pa.compute.is_nan(column)).as_py():
            return ["NaN" if value != value else value for value in values]
        return values

    def decode(self, value: float | str) -> float:
        return float(value)

    def read(self, value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("a number is written 1.5, NaN, Infinity or -Infinity")
        try:
            number = float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            raise ValueError("a number is written 1.5, NaN, Infinity or -Infinity") from None
        return _as_single(number) if self.single else number

    def literal(self, value: Any) -> Sql:
        number = None if value is None else self.read(value)
        return "NaN" if number != number else number

    def to_leaf(self, value: float) -> float | str:
        if math.isfinite(value):
            return value
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _as_single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)
