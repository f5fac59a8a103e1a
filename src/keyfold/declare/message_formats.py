"""`kf.avro` and `kf.protobuf`: formats of Kafka messages, as plain data."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from keyfold.errors import BadOption
from keyfold.masking import mask
from keyfold.plan.call_site import call_site
from keyfold.plan.message_formats import Avro, Protobuf
from keyfold.plan.validate import arguments


def avro(schema: str | None = None, registry: str | None = None) -> Avro:
    """Avro messages, for `format` and `key_format` of `kf.kafka`.

    >>> source = kf.kafka("localhost:9092", topic="orders", format=kf.avro(registry="http://localhost:8081"))

    With `registry`, the URL of a Schema Registry, messages are in Confluent's wire format, and each is
    decoded with the schema it was written with; a sink registers the schema of its table. Without one,
    `schema` is the schema that all messages were written with, as JSON.
    """
    site = call_site()
    if schema is not None and registry is not None:
        problem = "kf.avro takes a schema or a registry: the registry has the schema of each message"
        hint = 'kf.avro(registry="http://localhost:8081")'
        raise BadOption(problem, where=site, given="schema=, registry=", hint=hint)
    return Avro(
        None if schema is None else _schema(schema, site),
        None if registry is None else _registry(registry, site),
    )


def protobuf(descriptor: str, message: str) -> Protobuf:
    """Protobuf messages, for `format` of `kf.kafka`.

    >>> source = kf.kafka("localhost:9092", topic="orders", format=kf.protobuf("shop.desc", "shop.Order"))

    `descriptor` is the file of a descriptor set, `message` the full name of a message in it.
    """
    site, hint = call_site(), 'kf.protobuf(descriptor="shop.desc", message="shop.Order")'
    return Protobuf(
        arguments.instance(descriptor, str, "descriptor of kf.protobuf must be a string", hint, site),
        arguments.instance(message, str, "message of kf.protobuf must be a string", hint, site),
    )


def _schema(schema: object, where: object) -> str:
    hint = """kf.avro(schema='{"type": "record", "name": "Order", "fields": [...]}')"""
    text = arguments.instance(schema, str, "the schema of kf.avro must be a string", hint, where)
    try:
        json.loads(text)
    except ValueError:
        raise BadOption("the schema of kf.avro is not JSON", where=where, given=text, hint=hint) from None
    return text


def _registry(registry: object, where: object) -> str:
    if isinstance(registry, str):
        url = urlsplit(registry)
        if url.scheme in ("http", "https") and url.hostname:
            return registry.rstrip("/")
    hint = 'registry="http://localhost:8081"'
    given = mask(repr(registry))
    raise BadOption("registry must be the URL of a Schema Registry", where=where, given=given, hint=hint)
