"""What routes answer: documents as frozen dataclasses, from which OpenAPI's schemas are generated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any, Final

from keyfold.read.documents import Document
from keyfold.read.values import plain, utf8

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class OfTable:
    """What every answer about a table begins with: how far its view is."""

    app: str
    table: str
    batch: int | None
    """The last batch that the view shows; null before the first one."""
    position: str
    """The position behind that batch, for `after` and for the change feed."""
    watermark: datetime | str | None
    """The event time up to which windows are closed, as of that batch."""
    age: float | None
    """Seconds since that batch was committed."""


@dataclass(frozen=True)
class Streamed:
    """An answer that is sent piece by piece, in another format than JSON."""

    media: str
    pieces: Iterator[bytes] | AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def encode(answer: Any) -> bytes:
    """An answer as JSON, with values as `keyfold rows --json` prints them."""
    return utf8(plain(document(answer)))


def document(value: Any) -> Any:
    """Dataclasses as dicts, whatever they are in."""
    match value:
        case Document():
            return value.document()
        case _ if hasattr(value, "document"):
            return value.document()
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {one.name: document(getattr(value, one.name)) for one in fields(value)}
        case Mapping():
            return {name: document(item) for name, item in value.items()}
        case str() | bytes():
            return value
        case Sequence():
            return [document(item) for item in value]
    return value
