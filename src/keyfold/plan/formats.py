"""What a declaration depends on of a format: whether `kf.files` reads it, needs a schema, or never ends."""

from __future__ import annotations

from typing import Final

FILES: Final = ("json", "csv", "parquet")
"""The formats of `kf.files`."""
MESSAGES: Final = ("json", "csv", "avro", "text", "raw", "protobuf")
"""The formats of the values of `kf.kafka`."""
KEYS: Final = ("json", "avro", "text", "raw")
"""The formats of the keys of `kf.kafka`."""
WHOLE: Final = {"text": "value string", "raw": "value binary"}
"""Formats of messages that have one column, and the schema if none is declared."""
_TEXT: Final = frozenset({"json", "csv"})
_NEED_SCHEMA: Final = frozenset({*FILES, "orc", "avro", "xml"})
_GENERATED: Final = frozenset({"rate", "rate-micro-batch"})
_ONLY_STREAMED: Final = frozenset({*_GENERATED, "socket"})


def is_parsed(kind: str, format: str) -> bool:
    """Whether reading the rows of a source is much work, which tables can share: text, and messages."""
    return kind == "kafka" or (kind == "files" and format.lower() in _TEXT)


def needs_schema(format: str) -> bool:
    """Whether Spark streams it only with a schema; others (delta, socket, kafka, text) bring their own."""
    return format.lower() in _NEED_SCHEMA


def never_ends(format: str) -> bool:
    """Whether there is always more input, so that a stream of it can't be drained."""
    return format.lower() in _GENERATED


def only_streamed(format: str) -> bool:
    """Whether Spark can't read it as a whole."""
    return format.lower() in _ONLY_STREAMED
