"""JSON schemas of dataclasses, made from their annotations, for OpenAPI."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args, get_origin

from keyfold.read.documents import Document
from keyfold.server.docstrings import field_docs

Schema = dict[str, Any]
_SCALARS: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


class Schemas:
    """The schemas of dataclasses by name; those that a dataclass has as fields are added too."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of an annotation; of a dataclass, a reference to it."""
        if kind is dict:
            return {"type": "object"}
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"type": "string", "enum": list(arguments)}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in arguments]}
        if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
            return {"type": "array", "items": self.of(arguments[0])}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if isinstance(kind, type) and is_dataclass(kind):
            return self._reference(kind)
        raise TypeError(f"no JSON schema of {kind!r}")

    def _reference(self, kind: type) -> Schema:
        if kind.__name__ not in self.components:
            # Before its fields, which may refer to it.
            self.components[kind.__name__] = {}
            self.components[kind.__name__] = self._object(kind)
        return {"$ref": f"#/components/schemas/{kind.__name__}"}

    def _object(self, kind: Any) -> Schema:
        hints, docs = typing.get_type_hints(kind), field_docs(kind)
        own = [one for one in fields(kind) if one.name != "known" or not issubclass(kind, Document)]
        found: Schema = {"type": "object", "description": inspect.getdoc(kind)}
        found["properties"] = {one.name: self._property(hints[one.name], docs.get(one.name)) for one in own}
        required = [one.name for one in own if _always(kind, one)]
        return {**found, **({"required": required} if required else {})}

    def _property(self, hint: Any, text: str | None) -> Schema:
        found = self.of(hint)
        return {**found, "description": text} if text else found


def _always(kind: type, field: Field[Any]) -> bool:
    """Whether a document has the field: one that was read has those that its writer knew."""
    if issubclass(kind, Document):
        return field.default is MISSING and field.default_factory is MISSING
    return True
