"""Dataclasses that are read from a JSON document and written to one, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, Self

_READ: Final = "read"
_OPTIONAL: Final = "optional"


@dataclass(frozen=True, kw_only=True)
class Document:
    """The fields of a JSON document.

    `known`: those that it has, if not all. Another version of keyfold may have written it, so that some are
    missing, and others are of no meaning here.
    """

    known: frozenset[str] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """The fields of a document, in which times may be values already."""
        read = {one.name: one.metadata.get(_READ, _same) for one in fields(cls) if one.name != "known"}
        found = {name: read[name](value) for name, value in document.items() if name in read}
        return cls(**found, known=frozenset(found))

    def replace(self, **values: Any) -> Self:
        """The same with other values."""
        known = self.known if self.known is None else self.known | values.keys()
        return replace(self, **values, known=known)

    def values(self) -> dict[str, Any]:
        """The fields by name, as Python values."""
        return {name: plain(value, _same) for name, value in self._fields()}

    def document(self) -> dict[str, Any]:
        """The fields by name, as JSON has them: times in ISO 8601."""
        return {name: plain(value, datetime.isoformat) for name, value in self._fields()}

    def _fields(self) -> list[tuple[str, Any]]:
        own = [one for one in fields(self) if one.name != "known"]
        has = [one for one in own if self.known is None or one.name in self.known]
        found = [(one, getattr(self, one.name)) for one in has]
        return [(one.name, value) for one, value in found if value or not one.metadata.get(_OPTIONAL)]


def plain(value: Any, moment: Callable[[datetime], Any]) -> Any:
    """A value in which dataclasses are dicts, and times are as the function makes them."""
    match value:
        case Document():
            return {name: plain(item, moment) for name, item in value._fields()}
        case Mapping():
            return {name: plain(item, moment) for name, item in value.items()}
        case list() | tuple():
            return [plain(item, moment) for item in value]
        case datetime():
            return moment(value)
    return value


def _same(value: Any) -> Any:
    return value


def _moment(value: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


# How the value of a field is read that JSON does not have as it is: the metadata of the field.

Metadata = Mapping[str, Any]


def one(kind: type[Document]) -> Metadata:
    """A document, or null."""
    return {_READ: lambda found: None if found is None else kind.read(found)}


def many(kind: type[Document]) -> Metadata:
    """An array of documents."""
    return {_READ: lambda found: [kind.read(document) for document in found]}


def by_name(kind: type[Document]) -> Metadata:
    """An object that has documents as values."""
    return {_READ: lambda found: {name: kind.read(document) for name, document in found.items()}}


MOMENT: Final[Metadata] = {_READ: _moment}
"""A time in ISO 8601, or null."""
LEFT_OUT_IF_EMPTY: Final[Metadata] = {_OPTIONAL: True}
"""A field that a document has only if it has a value."""
