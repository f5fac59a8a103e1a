"""The formats of Kafka messages that need more than a name: Avro and Protobuf."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class Avro:
    """Avro messages, written with the schemas of a Schema Registry, or all with one schema."""

    name: ClassVar[str] = "avro"
    schema: str | None = None
    """The schema of all messages, as JSON."""
    # It may have a password: not in a repr.
    registry: str | None = field(default=None, repr=False)
    """The URL of the Schema Registry."""


@dataclass(frozen=True)
class Protobuf:
    """Protobuf messages of one type."""

    name: ClassVar[str] = "protobuf"
    descriptor: str
    """The file of a descriptor set."""
    message: str
    """The full name of the type, which is in the descriptor set."""


MessageFormat: TypeAlias = str | Avro | Protobuf
"""The name of a format, or a format with what it needs."""
