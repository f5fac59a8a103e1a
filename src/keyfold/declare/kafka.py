"""`kf.kafka`: topics of Kafka as a source or a sink, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from keyfold.declare.sources import checked_options
from keyfold.errors import BadOption
from keyfold.masking import masked
from keyfold.plan import durations, formats, kafka_options
from keyfold.plan.call_site import call_site
from keyfold.plan.kafka_topics import Delivery, KafkaTopics, OnDataLoss, Tombstones
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
    format: str = "json",
    registry: str | None = None,
    key_format: str | None = None,
    key_schema: str | None = None,
    descriptor: str | None = None,
    message: str | None = None,
    metadata: bool | Iterable[str] = False,
    tombstones: Literal["reject", "delete"] = "reject",
    on_data_loss: Literal["fail", "warn"] = "fail",
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once",
    wait: str | timedelta | int | None = None,
    options: Mapping[str, object] | None = None,
) -> Connector:
    """Topics of Kafka: messages as rows of a stream, or a topic that a table's changes are written to.

    >>> source = kf.kafka("localhost:9092", topic="orders", format="json", start="latest")

    A table begins to read at `start`: the earliest or latest message, a time, or offsets by topic and
    partition. `metadata` adds columns for what a message has beside its value: `kafka_key`, `kafka_headers`,
    `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp`; True for all, or a list of "key" and
    so on. The key is bytes, or as `key_format` says: "text", "json" or "avro" with the columns of
    `key_schema`, or a number as Kafka's own serializers write it, such as "long". A message without a value,
    a tombstone, is rejected, or with `tombstones="delete"` deletes the row of its key: the topic is then a
    changelog, for a table of its latest rows. `registry` is the URL of a Schema Registry. Protobuf needs
    `descriptor`, the file of a descriptor set, and `message`, the full name of a message in it.
    Messages that were deleted before they were read fail the table, or with `on_data_loss="warn"` are warned
    about. `wait` is how long a start waits for the brokers and the topics: 3 seconds for brokers that take no
    connection, else a minute. `options` are those of the format and of Spark's Kafka source; those of Kafka's
    own client begin with `kafka.`. A sink writes each batch in a transaction, exactly once, or with
    `delivery="at_least_once"` without.
    """
    site = call_site()
    topics = checked_topics(topic, pattern, site)
    spec = KafkaTopics(
        servers=checked_servers(servers, site),
        topics=topics,
        pattern=pattern,
        start=checked_start(start, topics, site),
        registry=None if registry is None else _registry(registry, (format, key_format), site),
        key_format=None
        if key_format is None
        else arguments.one_of(key_format, formats.KEYS, "key_format", site),
        key_schema=None if key_schema is None else _key_schema(key_schema, site),
        descriptor=_protobuf(descriptor, "descriptor", format, site),
        message=_protobuf(message, "message", format, site),
        metadata=_metadata(metadata, site),
        tombstones=cast(Tombstones, arguments.one_of(tombstones, ("reject", "delete"), "tombstones", site)),
        on_data_loss=cast(OnDataLoss, arguments.one_of(on_data_loss, ("fail", "warn"), "on_data_loss", site)),
        delivery=cast(
            Delivery, arguments.one_of(delivery, ("exactly_once", "at_least_once"), "delivery", site)
        ),
        wait_ms=None if wait is None else durations.millis(wait, "wait", zero=True, where=site),
    )
    checked = arguments.one_of(format, formats.MESSAGES, "the format of kf.kafka", site)
    given = arguments.mapping(
        {} if options is None else options, "options must be a dict", 'options={"kafka.x": "y"}', site
    )
    kafka_options.check(checked, given, site)
    return Connector("kafka", checked, None, checked_options(given), kafka=spec)


def _registry(registry: object, used: tuple[str | None, ...], where: object) -> str:
    if "avro" not in used:
        problem = f"registry= is for format='avro'; {used[0]} has no schema that is looked up there"
        hint = "leave registry out" + ("" if used[0] == "protobuf" else ", or format='avro'")
        raise BadOption(problem, where=where, given="registry=", hint=hint)
    if isinstance(registry, str):
        url = urlsplit(registry)
        if url.scheme in ("http", "https") and url.hostname:
            return registry.rstrip("/")
    hint = 'registry="http://localhost:8081"'
    given = masked(repr(registry))
    raise BadOption("registry must be the URL of a Schema Registry", where=where, given=given, hint=hint)


def _protobuf(value: object, name: str, format: str, where: object) -> str | None:
    hint = "format='protobuf', descriptor='shop.desc', message='shop.Order'"
    if (value is None) != (format != "protobuf"):
        problem = f"{name}= is for format='protobuf'" if value is not None else f"Protobuf needs {name}="
        raise BadOption(problem, where=where, given=f"{name}={value!r}, format={format!r}", hint=hint)
    return None if value is None else arguments.instance(value, str, f"{name} is text", hint, where)


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
