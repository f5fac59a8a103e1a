"""Strings, binaries, booleans, floating-point numbers and void."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from keyfold.views import arrow as pa
from keyfold.views.types.base import DataType, explain_errors


@dataclass(frozen=True)
class Void(DataType):
    """The type of an untyped null."""

    spark_name = "void"
    same_in_python = True
    # Spark sends Arrow's null type, whose casts inside lists and maps break; nulls of any type do as well.
    arrow_name = "int8"

    def to_canonical(self, value: Any) -> Any:
        raise ValueError("a column of type void holds only nulls")


@dataclass(frozen=True)
class Text(DataType):
    """string, char(n), varchar(n)."""

    spark_name = "string"
    same_in_python = True
    arrow_name = "string"

    def to_canonical(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"a string is written in quotes: '{value}'")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("a string must be Unicode without lone surrogates") from None
        return value


@dataclass(frozen=True)
class Binary(DataType):
    """binary."""

    spark_name = "binary"
    same_in_python = True
    arrow_name = "binary"

    def to_canonical(self, value: Any) -> bytes:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        with explain_errors("a binary is bytes, or text in hexadecimal: 0a1bff"):
            return bytes.fromhex(value.removeprefix("0x").removeprefix("0X"))


@dataclass(frozen=True)
class Boolean(DataType):
    """boolean."""

    spark_name = "boolean"
    same_in_python = True
    arrow_name = "bool"

    def to_canonical(self, value: Any) -> bool:
        word = value.strip().lower() if isinstance(value, str) else value
        if word in ("true", "false") or isinstance(word, bool):
            return word in ("true", True)
        raise ValueError("a boolean is true or false")


@dataclass(frozen=True)
class Floating(DataType):
    """float and double."""

    single: bool
    same_in_python = True

    def __str__(self) -> str:
        return "float" if self.single else "double"

    @property
    def arrow(self) -> pa.DataType:
        return pa.float32() if self.single else pa.float64()

    def to_canonical(self, value: Any) -> float:
        if isinstance(value, bool):
            raise ValueError("a number is written 1.5, NaN, Infinity or -Infinity")
        try:
            number = float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except (TypeError, ValueError):
            raise ValueError("a number is written 1.5, NaN, Infinity or -Infinity") from None
        return _as_single(number) if self.single else number


def _as_single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)
