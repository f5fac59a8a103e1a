"""Arrays, maps and structs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keyfold.views import arrow as pa
from keyfold.views.types.base import DataType


class Nested(DataType):
    """A type whose values consist of other values."""

    scalar = False


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
    def canonical_arrow(self) -> pa.DataType:
        return pa.list_(self.element.canonical_arrow)

    def to_canonical(self, value: Any) -> list[Any]:
        items = _parse(value, "an array is a list, or text such as [1, 2]")
        if not isinstance(items, list | tuple):
            raise ValueError("an array is a list, or text such as [1, 2]")
        return [_each(self.element.to_canonical, item) for item in items]

    def to_python(self, value: list[Any]) -> list[Any]:
        return [_each(self.element.to_python, item) for item in value]


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
    def canonical_arrow(self) -> pa.DataType:
        return pa.map_(self.key.canonical_arrow, self.value.canonical_arrow)

    def to_canonical(self, value: Any) -> list[tuple[Any, Any]]:
        mapping = _parse(value, 'a map is a dict, or text such as {"a": 1}')
        if not isinstance(mapping, Mapping):
            raise ValueError('a map is a dict, or text such as {"a": 1}')
        return [
            (self.key.to_canonical(key), _each(self.value.to_canonical, item))
            for key, item in mapping.items()
        ]

    def to_python(self, value: list[tuple[Any, Any]]) -> dict[Any, Any]:
        return {hashable(self.key.to_python(key)): _each(self.value.to_python, item) for key, item in value}


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
    def canonical_arrow(self) -> pa.DataType:
        return pa.struct([(name, kind.canonical_arrow) for name, kind in self.fields])

    def to_canonical(self, value: Any) -> dict[str, Any]:
        names = [name for name, _ in self.fields]
        fields = _parse(value, f'a struct is a dict, or text such as {{"{names[0] if names else "a"}": 1}}')
        if isinstance(fields, list | tuple) and len(fields) == len(names):
            fields = dict(zip(names, fields, strict=True))
        if not isinstance(fields, Mapping) or set(fields) != set(names):
            raise ValueError(f"a struct is a dict with the fields {', '.join(names)}")
        return {name: _each(kind.to_canonical, fields[name]) for name, kind in self.fields}

    def to_python(self, value: dict[str, Any]) -> dict[str, Any]:
        return {name: _each(kind.to_python, value[name]) for name, kind in self.fields}


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _parse(value: Any, shape: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(shape) from None


def hashable(key: Any) -> Any:
    """The key of a Python dict: arrays and structs become tuples of their values."""
    if isinstance(key, list):
        return tuple(hashable(item) for item in key)
    if isinstance(key, dict):
        return tuple(hashable(item) for item in key.values())
    return key
