"""The position of a batch in each source of a query: the lines of Spark's offset log as typed values.

The kind of source follows from the form of a line alone, which is unique to each kind. A table has more
sources than its streams: replayed late rows and control rows are files too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Messages = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition, as Spark's Kafka source writes them."""


@dataclass(frozen=True)
class FilesOffset:
    """Files, up to an entry of the source's own log."""

    entry: int


@dataclass(frozen=True)
class MessagesOffset:
    """Messages of topics, up to the next offset of each partition."""

    next: Messages


@dataclass(frozen=True)
class BatchOffset:
    """Batches of the log of a table or stream, up to one; or a counter of one of Spark's own sources."""

    batch: int


@dataclass(frozen=True)
class OtherOffset:
    """An offset that only Spark can interpret; its document is None if the source has had no input."""

    document: Any


SourceOffset = FilesOffset | MessagesOffset | BatchOffset | OtherOffset


def parse_offset(document: Any) -> SourceOffset:
    """A line of the offset log.

    >>> parse_offset({"logOffset": 3})
    FilesOffset(entry=3)
    >>> parse_offset({"orders": {"0": 12}})
    MessagesOffset(next={'orders': {'0': 12}})
    """
    match document:
        case int():
            return BatchOffset(document)
        case {"logOffset": int(entry)}:
            return FilesOffset(entry)
        case dict() if document and all(map(_is_topic, document.values())):
            return MessagesOffset(document)
    return OtherOffset(document)


def _is_topic(partitions: Any) -> bool:
    """Whether a value has an offset for each partition of a topic."""
    return isinstance(partitions, dict) and all(
        number.isdecimal() and isinstance(offset, int) for number, offset in partitions.items()
    )
