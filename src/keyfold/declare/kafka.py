"""`kf.kafka`: topics of Kafka as a source or a sink, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from inspect import signature
from typing import Any, Final, Literal, Never, cast

from keyfold.declare.sources import checked_options
from keyfold.errors import BadOption, choice, did_you_mean
from keyfold.plan import durations, formats, kafka_options
from keyfold.plan.call_site import call_site
from keyfold.plan.kafka_topics import Delivery, KafkaTopics, OnDataLoss, Tombstones
from keyfold.plan.message_formats import Avro, MessageFormat, Protobuf
from keyfold.plan.nodes import Connector
from keyfold.plan.validate import arguments
from keyfold.plan.validate.kafka import METADATA
from keyfold.plan.validate.kafka_start import checked_start
from keyfold.plan.validate.kafka_topics import checked_servers, checked_topics


def kafka(
    servers: str | Iterable[str],
    topic: str | Iterable[str] | None = None,
    pattern: str | None = None,
    start: str | datetime | Mapping[Any, Any] = "earliest",
    format: MessageFormat = "json",
    key_format: MessageFormat | None = None,
    key_schema: str | None = None,
    metadata: bool | Iterable[str] = False,
    tombstones: Literal["reject", "delete"] = "reject",
    on_data_loss: Literal["fail", "warn"] = "fail",
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once",
    wait: str | timedelta | int | None = None,
    options: Mapping[str, object] | None = None,
    **unknown: Never,
) -> Connector:
    """Topics of Kafka: messages as rows of a stream, or a topic that a table's changes are written to.

    >>> source = kf.kafka("localhost:9092", topic="orders", format="json", start="latest")

    A table begins to read at `start`: the earliest or latest message, a time, or offsets by topic and
    partition. `format` is "json", "csv", "text", "raw", a number as Kafka's own serializers write it, such as
    "long", `kf.avro(...)` or `kf.protobuf(...)`. `metadata` adds columns for what a message has beside its
    value: `kafka_key`, `kafka_headers`, `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp`;
    True for all, or a list of "key" and so on. The key is bytes, or as `key_format` says: "text", a number,
    or "json" or `kf.avro(...)` with the columns of `key_schema`. A message without a value, a tombstone, is
    rejected, or with `tombstones="delete"` deletes the row of its key: the topic is then a changelog, for a
    table of its latest rows. Messages that were deleted before they were read fail the table, or with
    `on_data_loss="warn"` are warned about. `wait` is how long a start waits for the brokers and the topics: 3
    seconds for brokers that take no connection, else a minute. `options` are those of the format and of
    Spark's Kafka source; those of Kafka's own client begin with `kafka.`. A sink writes each batch in a
    transaction, exactly once, or with `delivery="at_least_once"` without.
    """
    site = call_site()
    _refuse_unknown(unknown, site)
    value = _name(format, formats.MESSAGES, "the format of kf.kafka", site)
    key = None if key_format is None else _name(key_format, formats.KEYS, "key_format", site)
    protobuf = _protobuf(format, value, site)
    topics = checked_topics(topic, pattern, site)
    spec = KafkaTopics(
        servers=checked_servers(servers, site),
        topics=topics,
        pattern=pattern,
        start=checked_start(start, topics, site),
        registry=_registry(format, key_format, site),
        key_format=key,
        key_schema=None if key_schema is None else _key_schema(key_schema, site),
        descriptor=None if protobuf is None else protobuf.descriptor,
        message=None if protobuf is None else protobuf.message,
        metadata=_metadata(metadata, site),
        tombstones=cast(Tombstones, arguments.one_of(tombstones, ("reject", "delete"), "tombstones", site)),
        on_data_loss=cast(OnDataLoss, arguments.one_of(on_data_loss, ("fail", "warn"), "on_data_loss", site)),
        delivery=cast(
            Delivery, arguments.one_of(delivery, ("exactly_once", "at_least_once"), "delivery", site)
        ),
        wait_ms=None if wait is None else durations.millis(wait, "wait", zero=True, where=site),
    )
    given = arguments.mapping(
        {} if options is None else options, "options must be a dict", 'options={"kafka.x": "y"}', site
    )
    kafka_options.check(value, given, site)
    if isinstance(format, Avro) and format.schema is not None:
        given = {kafka_options.AVRO_SCHEMA: format.schema, **given}
    return Connector("kafka", value, None, checked_options(given), kafka=spec)


def _refuse_unknown(given: Mapping[str, object], where: object) -> None:
    for name in given:
        known = [one for one in signature(kafka).parameters if one != "unknown"]
        problem = f"unknown argument {name!r} of kf.kafka"
        if name in _OF_FORMATS:
            problem = f"{name}= is a part of the format"
        hint = _OF_FORMATS.get(name) or did_you_mean(name, known, choice(known))
        # Without the value, which may be a secret.
        raise BadOption(problem, where=where, given=f"{name}=", hint=hint)


def _name(format: object, names: Iterable[str], what: str, where: object) -> str:
    name = format.name if isinstance(format, Avro | Protobuf) else format
    return arguments.one_of(name, names, what, where)


def _protobuf(format: object, name: str, where: object) -> Protobuf | None:
    if isinstance(format, Protobuf):
        return format
    if name == "protobuf":
        problem = "Protobuf needs the type of its messages"
        raise BadOption(problem, where=where, given=f"format={name!r}", hint=_OF_FORMATS["message"])
    return None


def _registry(format: object, key_format: object, where: object) -> str | None:
    """The registry of values and keys in Avro; it may be given with either."""
    value, key = (one if isinstance(one, Avro) else Avro() for one in (format, key_format))
    found = {one.registry for one in (value, key) if one.registry is not None}
    if key.schema is not None:
        problem, hint = "Avro keys need a Schema Registry", f"key_{_OF_FORMATS['registry']}"
        raise BadOption(problem, where=where, given="key_format=kf.avro(schema=...)", hint=hint)
    if len(found) > 1 or (found and value.schema is not None):
        problem = "values and keys in Avro have the same Schema Registry"
        raise BadOption(problem, where=where, given="format=, key_format=", hint=_OF_FORMATS["registry"])
    return next(iter(found), None)


def _key_schema(schema: object, where: object) -> str:
    hint = "key_schema='id string, region string'"
    return arguments.instance(schema, str, "key_schema is text", hint, where).strip()


def _metadata(metadata: object, where: object) -> tuple[str, ...]:
    if isinstance(metadata, bool):
        return tuple(METADATA) if metadata else ()
    found = [metadata] if isinstance(metadata, str) else metadata
    if not isinstance(found, Iterable):
        hint = f"True, or a list of: {', '.join(METADATA)}"
        raise BadOption("metadata must be a list", where=where, given=repr(metadata), hint=hint)
    names = [arguments.one_of(_without_prefix(name), METADATA, "metadata", where) for name in found]
    # Each once, in the order given.
    return tuple(dict.fromkeys(names))


def _without_prefix(name: object) -> object:
    """A column's name is taken for what it is of: `kafka_key` for `key`."""
    return name.removeprefix("kafka_") if isinstance(name, str) else name


_OF_FORMATS: Final = {
    "registry": 'format=kf.avro(registry="http://localhost:8081")',
    "descriptor": 'format=kf.protobuf(descriptor="shop.desc", message="shop.Order")',
    "message": 'format=kf.protobuf(descriptor="shop.desc", message="shop.Order")',
}
"""How what belongs to a format is given with it."""
