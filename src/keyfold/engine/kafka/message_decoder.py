"""Decodes the keys and values that sinks write: JSON, Avro of a Schema Registry, and keys of one value."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from keyfold.engine.kafka import schema_registry
from keyfold.engine.kafka.messages import NUMBERS
from keyfold.errors import RunError

_Decoder = Callable[[bytes], dict[str, Any]]


class MessageDecoder:
    """Decodes the messages of one topic."""

    def __init__(self, topic: str, registry: str | None) -> None:
        self._topic, self._registry = topic, registry
        self._avro: dict[str, _Decoder] = {}

    def key(self, key: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The key's columns; the headers have the column of a bare key, and its format."""
        kind = headers.get("_key_format", "text" if "_key" in headers else "json")
        if kind in ("json", "avro"):
            return self._record(key, "key")
        value: Any = key
        if kind in NUMBERS:
            (value,) = struct.unpack(NUMBERS[kind], key)
        return {headers["_key"]: key.decode() if kind == "text" else value}

    def value(self, value: bytes | None) -> dict[str, Any]:
        """The columns of a row; none of a deleted one."""
        return {} if value is None else self._record(value, "value")

    def _record(self, data: bytes, part: str) -> dict[str, Any]:
        # Confluent's wire format begins with a zero byte, with which no JSON begins.
        if data[:1] != b"\0":
            found: dict[str, Any] = json.loads(data)
            return found
        if part not in self._avro:
            self._avro[part] = self._open(part)
        return self._avro[part](data)

    def _open(self, part: str) -> _Decoder:
        if self._registry is None:
            raise RunError(
                f"the messages of topic {self._topic} are in Avro",
                hint="name the Schema Registry: registry='http://localhost:8081'",
            )
        from confluent_kafka.schema_registry.avro import AvroDeserializer
        from confluent_kafka.serialization import SerializationContext

        read: Any = AvroDeserializer(schema_registry.client(self._registry))
        field: Any = part
        context = SerializationContext(self._topic, field)
        return lambda data: dict(read(data, context))
