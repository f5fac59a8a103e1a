"""Checks of a stream of Kafka messages: its schema, and the columns that come from metadata."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final

from keyfold.errors import BadOption
from keyfold.plan import ddl, formats
from keyfold.plan.kafka_options import AVRO_SCHEMA
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
    types = {**METADATA, "key": key_type(kafka)}
    return {f"kafka_{name}": types[name] for name in kafka.metadata}


def key_type(kafka: KafkaTopics) -> str:
    """The type of a key."""
    if kafka.key_schema is None:
        return formats.WHOLE.get(kafka.key_format or "raw", METADATA["key"])
    if is_one_value(kafka.key_schema):
        return kafka.key_schema
    columns = ddl.columns(kafka.key_schema, what="key_schema")
    return f"struct<{', '.join(f'`{name}`: {kind}' for name, kind in columns.items())}>"


def is_one_value(key_schema: str) -> bool:
    """Whether a schema is the type of one value, such as `bigint`, and not a list of columns."""
    return re.fullmatch(r"\w+(\([\d, ]*\))?", key_schema.strip()) is not None


def stream_schema(
    source: Connector, kafka: KafkaTopics, given: object, where: object
) -> tuple[dict[str, str], str]:
    """The columns of a stream of messages, with those of metadata, and the schema of its values as DDL."""
    _check_key(kafka, where)
    whole = formats.WHOLE.get(source.format)
    schema = given if given is not None or whole is None else f"value {whole}"
    if schema is None:
        hint = "schema='id string, amount double, at timestamp'"
        raise BadOption(f"a stream of {source.format} messages needs a schema", where=where, hint=hint)
    columns = ddl.columns(schema, where)
    if whole is not None and [t.lower() for t in columns.values()] != [whole]:
        problem = f"a stream of {source.format} messages has one column, of type {whole}"
        raise BadOption(problem, where=where, given=str(schema), hint=f"value {whole}")
    if source.format == "avro" and kafka.registry is None and AVRO_SCHEMA not in dict(source.options):
        hint = "format=kf.avro(registry='http://localhost:8081'), or kf.avro(schema='{...}')"
        raise BadOption("Avro messages need the schema they were written with", where=where, hint=hint)
    added = metadata_columns(kafka)
    taken = {name.lower() for name in columns} & set(added)
    if taken:
        problem = f"column {min(taken)} of the schema has the name of a column that metadata= adds"
        raise BadOption(problem, where=where, hint="another name in the schema")
    return {**columns, **added}, str(schema).strip()


def check_sink(sink: Connector, kafka: KafkaTopics, where: object) -> None:
    """Refuses arguments that a topic to write to can't have."""
    if len(kafka.topics) != 1:
        hint = 'kf.kafka("localhost:9092", topic="totals")'
        raise BadOption("a sink writes to one topic", where=where, given=kafka.subject, hint=hint)
    if sink.format not in ("json", "avro"):
        problem = "a sink writes JSON or Avro"
        raise BadOption(problem, where=where, given=f"format={sink.format!r}", hint="format='json'")
    if "avro" in (sink.format, kafka.key_format) and kafka.registry is None:
        problem = "a sink in Avro registers its schema"
        hint = "format=kf.avro(registry='http://localhost:8081')"
        raise BadOption(problem, where=where, given="no registry=", hint=hint)
    unset = KafkaTopics(
        kafka.servers,
        kafka.topics,
        registry=kafka.registry,
        key_format=kafka.key_format,
        delivery=kafka.delivery,
        wait_ms=kafka.wait_ms,
    )
    others = [one.name for one in fields(kafka) if getattr(kafka, one.name) != getattr(unset, one.name)]
    if others:
        problem = f"{others[0]} is an argument of a source, not of a sink"
        raise BadOption(
            problem, where=where, given=", ".join(f"{name}=" for name in others), hint="leave it out"
        )
    for name, _ in sink.options:
        if not name.startswith("kafka."):
            problem = "options of a sink are those of Kafka's client, and begin with kafka."
            raise BadOption(
                problem, where=where, given=name, hint="leave it out: it is an option of a source"
            )


def _check_key(kafka: KafkaTopics, where: object) -> None:
    """Keys of records need a schema, those in Avro a registry, and other keys neither."""
    given = f"key_format={kafka.key_format!r}"
    if kafka.key_format is not None and "key" not in kafka.metadata:
        problem = "key_format is the format of the column kafka_key, which the stream does not have"
        raise BadOption(problem, where=where, given=given, hint="metadata=['key'], or leave key_format out")
    if kafka.key_format in ("json", "avro"):
        if kafka.key_schema is None:
            hint = (
                "key_schema='id string, region string'; a key that is one value is Avro: key_schema='bigint'"
            )
            raise BadOption("keys of records need a schema", where=where, given=given, hint=hint)
        if not is_one_value(kafka.key_schema):
            ddl.columns(kafka.key_schema, where, "key_schema")
        elif kafka.key_format == "json":
            hint = "key_schema='id string', or key_format='text'"
            problem = "a JSON key is an object"
            raise BadOption(problem, where=where, given=f"key_schema={kafka.key_schema!r}", hint=hint)
        else:
            ddl.check_type(kafka.key_schema, where, "key_schema")
    elif kafka.key_schema is not None:
        hint = "leave key_schema out, or key_format='json'"
        raise BadOption("key_schema is for keys of JSON or Avro", where=where, given=given, hint=hint)
    if kafka.key_format == "avro" and kafka.registry is None:
        hint = "key_format=kf.avro(registry='http://localhost:8081')"
        raise BadOption("Avro keys need the schema they were written with", where=where, hint=hint)
