"""`kf.kafka`: topics of Kafka as a source or a sink, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from keyfold.declare.sources import checked_options
from keyfold.errors import BadOption
from keyfold.masking import masked
from keyfold.plan import durations, formats
from keyfold.plan.call_site import call_site
from keyfold.plan.kafka_topics import Delivery, KafkaTopics, OnDataLoss, Tombstones
from keyfold.plan.nodes import Connector
from keyfold.plan.validate import arguments
from keyfold.plan.validate.kafka import METADATA

_OFFSETS = 'start={"orders": {0: 1200, 1: "latest"}}; partitions that are not named start at the earliest'


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
    wait: str | timedelta | int = "1 minute",
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
    about. `wait` is how long a start waits for the brokers and the topics. `options` are those of the
    format and of Spark's Kafka source; those of Kafka's own client begin with `kafka.`. A sink writes each
    batch in a transaction, exactly once, or with `delivery="at_least_once"` without.
    """
    site = call_site()
    topics = _topics(topic, pattern, site)
    spec = KafkaTopics(
        servers=_servers(servers, site),
        topics=topics,
        pattern=pattern,
        start=_start(start, topics, site),
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
        wait_ms=durations.millis(wait, "wait", zero=True, where=site),
    )
    checked = arguments.one_of(format, formats.MESSAGES, "the format of kf.kafka", site)
    given = arguments.mapping(
        {} if options is None else options, "options must be a dict", 'options={"kafka.x": "y"}', site
    )
    _refuse_own(given, site)
    return Connector("kafka", checked, None, checked_options(given), kafka=spec)


def _servers(servers: object, where: object) -> str:
    listed = servers.split(",") if isinstance(servers, str) else servers
    hint = 'kf.kafka("localhost:9092", topic="orders"), several as "a:9092,b:9092"'
    if not isinstance(listed, Iterable) or not all(isinstance(one, str) for one in listed):
        problem = "the servers of kf.kafka must be a string"
        raise BadOption(problem, where=where, given=repr(servers), hint=hint)
    found = [one.strip() for one in listed]
    for one in found or [""]:
        host, colon, port = one.rpartition(":")
        if not colon or not host or not port.isdigit() or "://" in one:
            problem = "a server of kf.kafka is a host and a port"
            raise BadOption(problem, where=where, given=masked(one), hint=hint)
    return ",".join(found)


def _topics(topic: object, pattern: object, where: object) -> tuple[str, ...]:
    hint = 'topic="orders", topic=["orders", "returns"] or pattern="orders-.*"'
    if (topic is None) == (pattern is None):
        problem = "kf.kafka takes either topic= or pattern="
        given = "neither" if topic is None else "both"
        raise BadOption(problem, where=where, given=given, hint=hint)
    if topic is None:
        if not isinstance(pattern, str) or not pattern.strip():
            problem = "pattern must be a regular expression of topics"
            raise BadOption(problem, where=where, given=repr(pattern), hint=hint)
        return ()
    found = [topic] if isinstance(topic, str) else list(topic) if isinstance(topic, Iterable) else []
    for one in found or [topic]:
        if not isinstance(one, str) or not one.strip() or set(one) & set(", /"):
            raise BadOption("topic must be the name of a topic", where=where, given=repr(one), hint=hint)
    arguments.unique(found, "topic", where)
    return tuple(found)


def _start(start: object, topics: tuple[str, ...], where: object) -> str:
    if isinstance(start, datetime):
        # A naive time is UTC, as everywhere in keyfold.
        return (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(start, Mapping):
        return json.dumps(_offsets(start, topics, where), sort_keys=True)
    if start in ("earliest", "latest"):
        return str(start)
    try:
        return _start(datetime.fromisoformat(str(start)), topics, where)
    except ValueError:
        hint = f'"earliest", "latest", a time such as "2026-05-01T00:00:00Z", or offsets: {_OFFSETS}'
        raise BadOption(
            "start is not a position to begin reading at", where=where, given=repr(start), hint=hint
        ) from None


def _offsets(start: Mapping[Any, Any], topics: tuple[str, ...], where: object) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition; for a single topic they may be given by partition alone."""
    nested: Mapping[Any, Any] | None = start
    if start and not any(isinstance(value, Mapping) for value in start.values()):
        nested = {topics[0]: start} if len(topics) == 1 else None
    found: dict[str, dict[str, int]] = {}
    for topic, partitions in (nested or {}).items():
        if not isinstance(partitions, Mapping) or (topics and topic not in topics):
            nested = None
            break
        found[topic] = {str(p): _offset(p, offset, where) for p, offset in partitions.items()}
    if not nested:
        problem = "start must be offsets by topic and partition"
        raise BadOption(problem, where=where, given=repr(start), hint=_OFFSETS)
    return found


def _offset(partition: object, offset: object, where: object) -> int:
    known = {"earliest": -2, "latest": -1}
    value = known.get(offset, offset) if isinstance(offset, str) else offset
    ok = isinstance(value, int) and not isinstance(value, bool) and (value >= 0 or offset in known)
    if not ok or not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        given = f"{partition!r}: {offset!r}"
        raise BadOption(
            "start has a partition or an offset that is not a number", where=where, given=given, hint=_OFFSETS
        )
    return cast(int, value)


def _registry(registry: object, used: tuple[str | None, ...], where: object) -> str:
    if "avro" not in used:
        problem = f"registry= is for format='avro'; {used[0]} has no schema that is looked up there"
        raise BadOption(problem, where=where, given="registry=", hint="format='avro'")
    if isinstance(registry, str) and urlsplit(registry).scheme in ("http", "https"):
        return registry.rstrip("/")
    hint = 'registry="http://localhost:8081"'
    raise BadOption(
        "registry must be the URL of a Schema Registry", where=where, given=repr(registry), hint=hint
    )


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
    names = [arguments.one_of(name, METADATA, "metadata", where) for name in found]
    arguments.unique(names, "metadata", where)
    return tuple(names)


def _refuse_own(options: Mapping[str, object], where: object) -> None:
    """Refuses options of Spark's Kafka source that arguments of `kf.kafka` set."""
    own = {
        "kafka.bootstrap.servers": "servers",
        "subscribe": "topic=",
        "subscribepattern": "pattern=",
        "startingoffsets": "start=",
        "startingtimestamp": "start=",
        "startingoffsetsbytimestamp": "start=",
        "failondataloss": "on_data_loss=",
        "includeheaders": "metadata=['headers']",
    }
    for name in options:
        argument = own.get(str(name).lower())
        if argument is not None:
            raise BadOption(
                f"option {name} is the argument {argument} of kf.kafka",
                where=where,
                given=f"options={{{name!r}: ...}}",
            )
