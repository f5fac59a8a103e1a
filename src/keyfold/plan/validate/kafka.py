"""Checks of a stream of Kafka messages: its schema, and the columns that come from metadata."""

from __future__ import annotations

from typing import Final

from keyfold.errors import BadOption
from keyfold.plan import ddl, formats
from keyfold.plan.kafka_topics import KafkaTopics
from keyfold.plan.nodes import Connector

METADATA: Final = {
    "key": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}
"""The types of the columns that `metadata=` adds, each named `kafka_<name>`."""


def metadata_columns(kafka: KafkaTopics) -> dict[str, str]:
    """The columns that `metadata=` adds, with their types."""
    types = {**METADATA, "key": "string"} if kafka.key_format == "text" else METADATA
    return {f"kafka_{name}": types[name] for name in kafka.metadata}


def stream_schema(
    source: Connector, kafka: KafkaTopics, given: object, where: object
) -> tuple[dict[str, str], str]:
    """The columns of a stream of messages, with those of metadata, and the schema of its values as DDL."""
    if source.format == "protobuf":
        raise BadOption(
            "format='protobuf' can't be read yet: no decoder that fits this Spark is published",
            where=where,
            hint="format='raw', and decode the bytes in .select(...) or .transform(...)",
        )
    _refuse_key_format(kafka, where)
    schema = given if given is not None else formats.WHOLE.get(source.format)
    if schema is None:
        hint = "schema='id string, amount double, at timestamp'"
        raise BadOption(f"a stream of {source.format} messages needs a schema", where=where, hint=hint)
    columns = ddl.columns(schema, where)
    if source.format in formats.WHOLE and [t.lower() for t in columns.values()] != [
        formats.WHOLE[source.format].split()[1]
    ]:
        problem = f"a stream of {source.format} messages has one column"
        raise BadOption(problem, where=where, given=str(schema), hint=formats.WHOLE[source.format])
    if source.format == "avro" and kafka.registry is None and "avroschema" not in _names(source):
        hint = "registry='http://localhost:8081', or options={'avroSchema': '{\"type\": \"record\", ...}'}"
        raise BadOption("Avro messages need the schema they were written with", where=where, hint=hint)
    added = metadata_columns(kafka)
    taken = {name.lower() for name in columns} & set(added)
    if taken:
        problem = f"column {min(taken)} of the schema has the name of a column that metadata= adds"
        raise BadOption(problem, where=where, hint="another name in the schema")
    return {**columns, **added}, str(schema).strip()


def check_sink(sink: Connector, kafka: KafkaTopics, where: object) -> None:
    """Refuses what a topic that is written to can't have."""
    if len(kafka.topics) != 1:
        hint = 'kf.kafka("localhost:9092", topic="totals")'
        raise BadOption("a sink writes to one topic", where=where, given=kafka.subject, hint=hint)
    if sink.format != "json":
        problem = "a sink writes JSON; other formats are not supported yet"
        raise BadOption(problem, where=where, given=f"format={sink.format!r}", hint="format='json'")
    unset = KafkaTopics(kafka.servers, kafka.topics, delivery=kafka.delivery, wait_ms=kafka.wait_ms)
    if kafka != unset:
        problem = "start, metadata, key_format, tombstones and on_data_loss are options of a source"
        raise BadOption(problem, where=where, given=kafka.subject, hint="leave them out")
    others = [name for name, _ in sink.options if not name.startswith("kafka.")]
    if others:
        problem = "options of a sink are those of Kafka's client, and begin with kafka."
        raise BadOption(problem, where=where, given=others[0], hint=f"kafka.{others[0]}")


def _refuse_key_format(kafka: KafkaTopics, where: object) -> None:
    if kafka.key_format in (None, "text", "raw"):
        return
    raise BadOption(
        "the key of a message is read as text or as raw bytes",
        where=where,
        given=f"key_format={kafka.key_format!r}",
        hint="key_format='text', and parse it in .select(...)",
    )


def _names(source: Connector) -> set[str]:
    return {name.lower() for name, _ in source.options}
