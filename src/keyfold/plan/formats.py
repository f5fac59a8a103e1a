"""What declarations depend on in a format: whether `kf.files` reads it, needs a schema, or never ends."""

from __future__ import annotations

from typing import Final

FILES: Final = ("json", "csv", "parquet")
"""The formats of `kf.files`."""
WHOLE: Final = {
    "text": "string",
    "raw": "binary",
    "short": "smallint",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
}
"""Formats of messages that are one value, and its type: text, bytes, numbers as Kafka's serializers write."""
MESSAGES: Final = ("json", "csv", "avro", "protobuf", *WHOLE)
"""The formats of the values of `kf.kafka`."""
KEYS: Final = ("json", "avro", *WHOLE)
"""The formats of the keys of `kf.kafka`."""
_TEXT: Final = frozenset({"json", "csv"})
_NEED_SCHEMA: Final = frozenset({*FILES, "orc", "avro", "xml"})
_GENERATED: Final = frozenset({"rate", "rate-micro-batch"})
_ONLY_STREAMED: Final = frozenset({*_GENERATED, "socket"})


def is_parsed(kind: str, format: str) -> bool:
    """Whether parsing the rows of a source is expensive enough for tables to share it: text, and messages."""
    return kind == "kafka" or (kind == "files" and format.lower() in _TEXT)


def needs_schema(format: str) -> bool:
    """Whether Spark only streams it with a schema; others (delta, socket, kafka, text) have their own."""
    return format.lower() in _NEED_SCHEMA


def never_ends(format: str) -> bool:
    """Whether its input never ends, so that a stream of it can't be drained."""
    return format.lower() in _GENERATED


def only_streamed(format: str) -> bool:
    """Whether Spark can't read it as a batch."""
    return format.lower() in _ONLY_STREAMED
