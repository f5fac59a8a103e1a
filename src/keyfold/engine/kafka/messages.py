"""A change as a message: key, value, headers; written by sinks, and read back by `keyfold.read_changes`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.internal_columns import MESSAGE_KEY, MESSAGE_VALUE, OP, SIDE_OUTPUT
from keyfold.errors import BadOption
from keyfold.plan import formats
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Spark's default would cut microseconds off.
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}
NUMBERS: Final = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
"""How Kafka's serializers write numbers."""

Encoder = Callable[[list[str]], "Column"]
"""Columns of a change as one value."""


@dataclass(frozen=True)
class MessageEncoding:
    """How a table's changes become messages. A key of one value is bare, others are objects or records."""

    view: ViewSchema
    key_format: str
    key: Encoder
    value: Encoder

    def batch_headers(self, table: str, batch: int, watermark: datetime | None) -> list[tuple[str, str]]:
        """The headers that all messages of a batch have; `table` is its full name."""
        mark = "" if watermark is None else watermark.isoformat()
        return [("_batch", str(batch)), ("_table", table), ("_watermark", mark), *self._key_headers()]

    def _key_headers(self) -> list[tuple[str, str]]:
        """What readers need to decode a key: the column of a bare one, and its format unless it is text."""
        bare = [("_key", self.view.keys[0].name)] if self.key_format in formats.WHOLE else []
        plain = self.key_format in ("text", "json")
        return bare if plain else [*bare, ("_key_format", self.key_format)]

    def encode(self, changes: DataFrame) -> DataFrame:
        """Changes as `_op`, `key` and `value`; tasks do the work. A delete has no value."""
        return changes.select(OP, *(column.alias(name) for name, column in self._columns().items()))

    def key_bytes(self, key: Any) -> bytes:
        """The key of a message, from what `encoded` has for it."""
        kind = NUMBERS.get(self.key_format)
        return bytes(key) if kind is None else struct.pack(kind, key)

    def message_columns(self) -> dict[str, Column]:
        """The key and the value of each change's message, beside the change; none for side outputs."""
        from pyspark.sql import functions as F

        made = self._columns()
        is_change = F.col(SIDE_OUTPUT).isNull()
        return {
            MESSAGE_KEY: F.when(is_change, made["key"]),
            MESSAGE_VALUE: F.when(is_change, made["value"]),
        }

    def _columns(self) -> dict[str, Column]:
        from pyspark.sql import functions as F

        keys = [column.name for column in self.view.keys]
        value = self.value([*keys, *(column.name for column in self.view.columns)])
        nothing = F.lit(None).cast("binary")
        return {"key": self.key(keys), "value": F.when(F.col(OP) == "delete", nothing).otherwise(value)}


def json_encoding(view: ViewSchema) -> MessageEncoding:
    """JSON values, and keys in the format that is usual for the table."""
    return MessageEncoding(view, *key_encoding(view, None), json_of)


def key_encoding(view: ViewSchema, key_format: str | None) -> tuple[str, Encoder]:
    """The format of a table's keys, other than Avro, and how they are written.

    By default a single string is bare text, as other programs key topics, and any other key a JSON object.
    """
    kinds = [str(column.type) for column in view.keys]
    chosen = key_format or ("text" if kinds == ["string"] else "json")
    if chosen == "json":
        return chosen, json_of
    if kinds != [formats.WHOLE[chosen]]:
        named = ", ".join(f"{column.name} {column.type}" for column in view.keys)
        raise BadOption(
            f"key_format={chosen!r} is for a key of one column of type {formats.WHOLE[chosen]}",
            where=view.table,
            given=f"the key of {view.table}: {named}",
            hint="key_format='json', or leave it out",
        )
    return chosen, _bare if chosen in NUMBERS else _binary


def json_of(names: list[str]) -> Column:
    """Columns as a JSON object; null stays, so that all rows have the same fields."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), _JSON).cast("binary")


def _bare(names: list[str]) -> Column:
    from pyspark.sql import functions as F

    return F.col(f"`{names[0]}`")


def _binary(names: list[str]) -> Column:
    return _bare(names).cast("binary")
