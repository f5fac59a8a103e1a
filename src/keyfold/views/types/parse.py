"""Parses Spark's JSON form of a data type, as in `df.schema.json()`."""

from __future__ import annotations

import re
from typing import Any, Final

from keyfold.errors import DeclarationError
from keyfold.views.types.base import DataType
from keyfold.views.types.nested import Array, Map, Struct
from keyfold.views.types.numbers import Exact, Integer, Months
from keyfold.views.types.scalars import Binary, Boolean, Floating, Text, Void
from keyfold.views.types.temporal import Clock, Date, DayTime, Timestamp

__all__ = ["LONG", "STRING", "TIMESTAMP", "DataType", "parse"]

LONG: Final = Integer("long")
STRING: Final = Text()
TIMESTAMP: Final = Timestamp(zoned=True)

_SIMPLE: Final[dict[str, DataType]] = {
    "void": Void(),
    "null": Void(),
    "string": STRING,
    "binary": Binary(),
    "boolean": Boolean(),
    "byte": Integer("byte"),
    "short": Integer("short"),
    "integer": Integer("integer"),
    "long": LONG,
    "float": Floating(single=True),
    "double": Floating(single=False),
    "decimal": Exact(10, 0),
    "date": Date(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": Timestamp(zoned=False),
}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_TIME: Final = re.compile(r"time(?:\((\d+)\))?")
_TEXT: Final = re.compile(r"(?:var)?char\(\d+\)|string collate \S+")
_INTERVAL: Final = re.compile(
    r"interval ((year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?)"
)


def parse(kind: Any) -> DataType:
    """The type of a JSON form: "long", "decimal(10,2)", {"type": "array", "elementType": "date", ...}.

    >>> str(parse({"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}))
    'map<string,bigint>'
    """
    found = _parse_name(kind) if isinstance(kind, str) else _built(kind) if isinstance(kind, dict) else None
    if found is None:
        hint = "convert the column: to_json(x) for a variant, cast(x as string) for other types"
        raise DeclarationError(f"views do not support the type {_name(kind)}", hint=hint)
    return found


def _parse_name(kind: str) -> DataType | None:
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple
    if match := _DECIMAL.fullmatch(kind):
        return Exact(int(match[1]), int(match[2]))
    if match := _INTERVAL.fullmatch(kind):
        return Months(kind) if match[2] in ("year", "month") else DayTime(match[1])
    if match := _TIME.fullmatch(kind):
        return Clock(int(match[1] or 6))
    return STRING if _TEXT.fullmatch(kind) else None


def _built(kind: dict[str, Any]) -> DataType | None:
    shape = kind.get("type")
    if shape == "array":
        return Array(parse(kind["elementType"]))
    if shape == "map":
        return Map(parse(kind["keyType"]), parse(kind["valueType"]))
    if shape == "struct":
        return _struct(kind["fields"])
    return parse(kind["sqlType"]) if shape == "udt" else None


def _struct(fields: list[dict[str, Any]]) -> Struct:
    names = [field["name"] for field in fields]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        hint = "struct(x as a, y as b) or named_struct('a', x, 'b', y)"
        raise DeclarationError(f"a struct has two fields named {twice!r}", hint=hint)
    return Struct(tuple((field["name"], parse(field["type"])) for field in fields))


def _name(kind: Any) -> str:
    return (
        kind
        if isinstance(kind, str)
        else str(kind.get("type", kind))
        if isinstance(kind, dict)
        else repr(kind)
    )
