"""Registers the schemas of a sink's messages with a Schema Registry, by Confluent's own client."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from keyfold.engine.kafka.topics import client_missing
from keyfold.errors import RunError
from keyfold.masking import mask


def client(url: str) -> Any:
    """A client for the registry's URL, whose user and password are for basic authentication."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError:
        raise client_missing() from None
    parts = urlsplit(url)
    if not parts.username:
        return SchemaRegistryClient({"url": url})
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return SchemaRegistryClient({"url": bare, "basic.auth.user.info": user})


def register(url: str, subject: str, schema: str, table: str) -> int:
    """The id of an Avro schema under a subject; one that is there already keeps its id."""
    registry = client(url)
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        return int(registry.register_schema(subject, Schema(schema, "AVRO")))
    except SchemaRegistryError as error:
        raise _refusal(error, subject, table) from None
    except Exception as error:  # the client lets those of its HTTP library through
        raise RunError(
            f"the Schema Registry at {mask(url)} can't be reached",
            given=mask(f"{type(error).__name__}: {error}"),
            hint="is it running, and is registry= of kf.avro right?",
        ) from None


def _refusal(error: Any, subject: str, table: str) -> RunError:
    reason = mask(f"status {error.http_status_code}: {error.error_message}")
    if error.http_status_code == 409:
        return RunError(
            f"the Schema Registry refuses the columns of table {table}: they are incompatible with what "
            f"subject {subject} has",
            given=reason,
            hint="give the column back its old type, or write to another topic; the registry's compatibility "
            "setting of the subject says what may change",
        )
    if error.http_status_code in (401, 403):
        hint = 'registry="http://user:password@host:8081" logs in'
        return RunError("the Schema Registry refuses the credentials", given=reason, hint=hint)
    return RunError(f"the Schema Registry refuses the schema of subject {subject}", given=reason)
