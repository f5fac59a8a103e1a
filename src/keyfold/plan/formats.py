"""The formats of files and messages, by name, and what is known of each without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Format:
    """A format of Spark's, and what declarations and readers need to know of it."""

    name: str
    files: bool = False
    """Whether `kf.files` reads it."""
    text: bool = False
    """Whether rows are text, which is kept where it does not parse."""
    columnar: bool = False
    """Whether a reader can skip columns."""
    needs_schema: bool = False
    """Whether Spark streams it only with a schema; others (delta, socket, kafka, text) bring their own."""
    endless: bool = False
    """Whether there is always more input, so that a stream of it can't be drained."""
    only_streamed: bool = False
    """Whether Spark can't read it as a whole."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Reader options that differ from Spark's defaults."""


KNOWN: Final = (
    Format("json", files=True, text=True, needs_schema=True),
    # A file without a header is read with header=False.
    Format("csv", files=True, text=True, needs_schema=True, defaults={"header": "true"}),
    Format("parquet", files=True, columnar=True, needs_schema=True),
    Format("orc", columnar=True, needs_schema=True),
    Format("avro", needs_schema=True),
    Format("xml", needs_schema=True),
    Format("rate", endless=True, only_streamed=True),
    Format("rate-micro-batch", endless=True, only_streamed=True),
    Format("socket", only_streamed=True),
)
"""Formats of which more is known than the name."""
_BY_NAME: Final = {format.name: format for format in KNOWN}
FILES: Final = tuple(format.name for format in KNOWN if format.files)
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


def find_format(name: str) -> Format:
    """The format of a name, in any case; of one that is not in the table, no more than the name."""
    return _BY_NAME.get(name.lower()) or Format(name)


def is_parsed(kind: str, format: str) -> bool:
    """Whether reading the rows of a source is much work, which tables can share: text, and messages."""
    return kind == "kafka" or (kind == "files" and find_format(format).text)
