"""Topics: created by commands and for a table's history, and looked up before a sink begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from keyfold.errors import BadOption, RunError
from keyfold.masking import mask
from keyfold.plan.validate.kafka_topics import checked_name

_SECONDS: Final = 30.0


def parse_topic(text: str) -> tuple[str, int]:
    """`orders:4` as a name and a number of partitions, which is 1 if it is left out."""
    name, colon, number = text.partition(":")
    hint = "orders, or orders:4 for four partitions"
    if colon and (not number.isdecimal() or int(number) == 0):
        raise BadOption("the number of partitions must be a whole number above zero", given=text, hint=hint)
    return checked_name(name, hint=hint), int(number or 1)


def client_missing() -> RunError:
    """What to say if the extra is not installed."""
    return RunError("Kafka's client for Python is not installed", hint='pip install "keyfold[kafka]"')


def admin(settings: Mapping[str, Any]) -> Any:
    """The client that manages topics."""
    try:
        from confluent_kafka.admin import AdminClient
    except ImportError:
        raise client_missing() from None
    return AdminClient(dict(settings))


def exists(client: Mapping[str, Any], name: str) -> bool:
    """Whether the brokers have a topic; the client's error is raised if they don't answer."""
    found = admin({"error_cb": _quiet, **client}).list_topics(name, timeout=_SECONDS).topics
    return name in found and found[name].error is None


def _quiet(error: object) -> None:
    """Instead of the client's own lines on stderr: what matters is raised."""


def create(
    servers: str,
    name: str,
    partitions: int = 1,
    *,
    config: Mapping[str, str] | None = None,
    client: Mapping[str, Any] | None = None,
) -> bool:
    """Creates a topic; False if it is there already."""
    manager = admin({"bootstrap.servers": servers, "error_cb": _quiet, "log_level": 0, **(client or {})})
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.cimpl import NewTopic

    topic = NewTopic(name, num_partitions=partitions, config=dict(config or {}))
    try:
        manager.create_topics([topic], operation_timeout=_SECONDS, request_timeout=_SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        raise RunError(
            f"topic {name!r} could not be created",
            given=mask(error.args[0].str()),
            hint=f"is a Kafka broker at {servers}? `keyfold dev kafka` starts one",
        ) from None
    return True


def require_compacted(client: Mapping[str, Any], name: str) -> None:
    """Creates a compacted topic; one that exists must be compacted, or it would forget old keys."""
    servers = str(client["bootstrap.servers"])
    if create(servers, name, -1, config={"cleanup.policy": "compact"}, client=client):
        return
    manager = admin({"error_cb": _quiet, **client})
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    resource = ConfigResource("topic", name)
    try:
        found = manager.describe_configs([resource], request_timeout=_SECONDS)[resource].result()
    except KafkaException as error:
        raise RunError(f"the settings of topic {name!r} can't be read", given=error.args[0].str()) from None
    policy = found["cleanup.policy"].value
    if policy != "compact":
        raise RunError(
            f"topic {name!r} is not compacted: it would forget the rows of keys that do not change",
            given=f"cleanup.policy={policy}",
            hint="set cleanup.policy=compact for it, or name a topic that does not exist: it is created",
        )
