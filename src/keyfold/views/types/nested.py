"""Arrays, maps and structs: JSON text in SQLite, whose leaves read back exactly as they were.

NaN and the infinities are strings, decimals and binaries (base64) too, points in time are integers. A map
is an object if its keys are strings, else an array of pairs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keyfold.views import arrow as pa
from keyfold.views.types.base import DataType, Sql
from keyfold.views.types.scalars import Text


class Nested(DataType):
    """A type whose values are made of others."""

    scalar = False

    def encode(self, column: pa.Array) -> list[Sql]:
        leaf = self.to_leaf
        return [None if value is None else _dumps(leaf(value)) for value in column.to_pylist()]

    def decode(self, value: str) -> Any:
        return self.from_leaf(json.loads(value))

    def literal(self, value: Any) -> Sql:
        if value is None:
            return None
        return _dumps(self.to_leaf(self.read(value)))


@dataclass(frozen=True)
class Array(Nested):
    """array<element>; a list in Python."""

    element: DataType

    def __str__(self) -> str:
        return f"array<{self.element}>"

    def to_json(self) -> Any:
        return {"type": "array", "elementType": self.element.to_json(), "containsNull": True}

    @property
    def arrow(self) -> pa.DataType:
        return pa.list_(self.element.arrow)

    @property
    def stored(self) -> pa.DataType:
        return pa.list_(self.element.stored)

    def read(self, value: Any) -> list[Any]:
        items = _parsed(value, "an array is a list, or text such as [1, 2]")
        if not isinstance(items, list | tuple):
            raise ValueError("an array is a list, or text such as [1, 2]")
        return [_each(self.element.read, item) for item in items]

    def to_leaf(self, value: list[Any]) -> list[Any]:
        return value if self.element.plain else [_each(self.element.to_leaf, item) for item in value]

    def from_leaf(self, leaf: list[Any]) -> list[Any]:
        return [_each(self.element.from_leaf, item) for item in leaf]


@dataclass(frozen=True)
class Map(Nested):
    """map<key, value>; a dict in Python, keys that are arrays or structs as tuples of their values."""

    key: DataType
    value: DataType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"

    def to_json(self) -> Any:
        key, value = self.key.to_json(), self.value.to_json()
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}

    @property
    def arrow(self) -> pa.DataType:
        return pa.map_(self.key.arrow, self.value.arrow)

    @property
    def stored(self) -> pa.DataType:
        return pa.map_(self.key.stored, self.value.stored)

    def read(self, value: Any) -> list[tuple[Any, Any]]:
        mapping = _parsed(value, 'a map is a dict, or text such as {"a": 1}')
        if not isinstance(mapping, Mapping):
            raise ValueError('a map is a dict, or text such as {"a": 1}')
        return [(self.key.read(key), _each(self.value.read, item)) for key, item in mapping.items()]

    def to_leaf(self, value: list[tuple[Any, Any]]) -> Any:
        pairs = ((self.key.to_leaf(key), _each(self.value.to_leaf, item)) for key, item in value)
        return dict(pairs) if isinstance(self.key, Text) else [list(pair) for pair in pairs]

    def from_leaf(self, leaf: Any) -> dict[Any, Any]:
        pairs = leaf.items() if isinstance(leaf, dict) else leaf
        return {_hashable(self.key.from_leaf(key)): _each(self.value.from_leaf, item) for key, item in pairs}


@dataclass(frozen=True)
class Struct(Nested):
    """struct<name: type, ...>; a dict in Python."""

    fields: tuple[tuple[str, DataType], ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{kind}' for name, kind in self.fields)}>"

    def to_json(self) -> Any:
        fields = [
            {"name": name, "type": kind.to_json(), "nullable": True, "metadata": {}}
            for name, kind in self.fields
        ]
        return {"type": "struct", "fields": fields}

    @property
    def arrow(self) -> pa.DataType:
        return pa.struct([(name, kind.arrow) for name, kind in self.fields])

    @property
    def stored(self) -> pa.DataType:
        return pa.struct([(name, kind.stored) for name, kind in self.fields])

    def read(self, value: Any) -> dict[str, Any]:
        names = [name for name, _ in self.fields]
        fields = _parsed(value, f'a struct is a dict, or text such as {{"{names[0] if names else "a"}": 1}}')
        if isinstance(fields, list | tuple) and len(fields) == len(names):
            fields = dict(zip(names, fields, strict=True))
        if not isinstance(fields, Mapping) or set(fields) != set(names):
            raise ValueError(f"a struct is a dict with the fields {', '.join(names)}")
        return {name: _each(kind.read, fields[name]) for name, kind in self.fields}

    def to_leaf(self, value: dict[str, Any]) -> dict[str, Any]:
        return {name: _each(kind.to_leaf, value[name]) for name, kind in self.fields}

    def from_leaf(self, leaf: dict[str, Any]) -> dict[str, Any]:
        return {name: _each(kind.from_leaf, leaf[name]) for name, kind in self.fields}


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _dumps(leaf: Any) -> str:
    return json.dumps(leaf, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _parsed(value: Any, shape: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(shape) from None


def _hashable(key: Any) -> Any:
    if isinstance(key, list):
        return tuple(_hashable(item) for item in key)
    if isinstance(key, dict):
        return tuple(_hashable(item) for item in key.values())
    return key
