"""Arrays, maps and structs as JSON text that reads back exactly.

JSON has no NaN, no infinities, no decimals and no binaries: these are strings (binaries in base64). Temporal
values are integers, like the canonical values. A map is an object if its keys are strings, else an array of
pairs.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from keyfold.views.types.base import DataType
from keyfold.views.types.nested import Array, Map, Struct, hashable
from keyfold.views.types.numbers import Exact
from keyfold.views.types.scalars import Binary, Floating, Text

Convert = Callable[[Any], Any]
loads = json.loads


def dumps(leaf: Any) -> str:
    """JSON text, as short as possible."""
    return json.dumps(leaf, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_leaf(type: DataType) -> Convert:
    """A function from canonical values, which may be null, to what stands in the JSON."""
    if isinstance(type, Array):
        return _array(to_leaf(type.element))
    if isinstance(type, Map):
        return _map_to_leaf(type)
    if isinstance(type, Struct):
        return _struct(type, to_leaf)
    if isinstance(type, Floating):
        return _or_null(_float_to_leaf)
    if isinstance(type, Binary):
        return _or_null(lambda value: base64.b64encode(value).decode())
    return _or_null(str) if isinstance(type, Exact) else _same


def from_leaf(type: DataType) -> Convert:
    """A function from what stands in the JSON to Python values."""
    if isinstance(type, Array):
        return _array(from_leaf(type.element))
    if isinstance(type, Map):
        return _map_from_leaf(type)
    if isinstance(type, Struct):
        return _struct(type, from_leaf)
    if isinstance(type, Floating):
        return _or_null(float)
    if isinstance(type, Binary):
        return _or_null(base64.b64decode)
    if isinstance(type, Exact):
        return _or_null(Decimal)
    return _same if type.same_in_python else _or_null(type.to_python)


def _same(value: Any) -> Any:
    return value


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _array(item: Convert) -> Convert:
    if item is _same:
        return _same
    return _or_null(lambda values: [item(value) for value in values])


def _struct(type: Struct, convert: Callable[[DataType], Convert]) -> Convert:
    fields = [(name, convert(kind)) for name, kind in type.fields]
    return _or_null(lambda value: {name: item(value[name]) for name, item in fields})


def _map_to_leaf(type: Map) -> Convert:
    key, item = to_leaf(type.key), to_leaf(type.value)
    if isinstance(type.key, Text):
        return _or_null(lambda pairs: {key(k): item(v) for k, v in pairs})
    return _or_null(lambda pairs: [[key(k), item(v)] for k, v in pairs])


def _map_from_leaf(type: Map) -> Convert:
    key, item = from_leaf(type.key), from_leaf(type.value)

    def read(leaf: Any) -> dict[Any, Any]:
        pairs = leaf.items() if isinstance(leaf, dict) else leaf
        return {hashable(key(k)): item(v) for k, v in pairs}

    return _or_null(read)


def _float_to_leaf(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
