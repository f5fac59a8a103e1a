"""`read_changes`, and `read_table` of a topic: what a Kafka sink or a table's history has written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from keyfold.engine.kafka import listening
from keyfold.engine.kafka.client import python
from keyfold.engine.kafka.failures import explain_errors
from keyfold.engine.kafka.message_decoder import MessageDecoder
from keyfold.engine.kafka.topics import client_missing
from keyfold.errors import RunError
from keyfold.plan.call_site import call_site
from keyfold.plan.validate import arguments
from keyfold.plan.validate.kafka_topics import checked_name, checked_servers

_SECONDS: Final = 30.0
_AT_ONCE: Final = 1_000


def read_changes(
    servers: str,
    topic: str,
    *,
    follow: bool = False,
    registry: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The changes that a table has written to a topic, of committed transactions, oldest first per key.

    >>> for change in kf.read_changes("127.0.0.1:9092", "totals"):  # doctest: +SKIP
    ...     print(change["_op"], change["region"], change.get("n"))

    A change is the row's columns, as JSON has them, or for a topic in Avro, whose schemas are in `registry`,
    as Python has them, with `_op`, `_batch`, `_table` and `_watermark`. A delete
    has the key's columns only. What a table that writes at least once has repeated is left out, unless it
    is in real-time mode: there `_attempt` is the attempt at the batch that sent a change, and changes of a
    later attempt take the place of an earlier one's. The iterator ends at the topic's present end; with
    `follow` it waits for more. `options` are those of Kafka's client.
    """
    changes = _checked_changes(servers, topic, follow, registry, options)
    return (change for _, change in changes)


def _checked_changes(
    servers: object, topic: object, follow: bool, registry: str | None, options: object
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The changes with their keys; arguments are checked at once, not when the first change is read."""
    site = call_site()
    name = checked_name(topic, site, 'the name of the topic, "totals"')
    given = arguments.mapping(
        {} if options is None else options, "options must be a dict", 'options={"kafka.x": "y"}', site
    )
    text = {setting: str(value) for setting, value in given.items()}
    return _keyed_changes(checked_servers(servers, site), name, follow, text, MessageDecoder(name, registry))


def _keyed_changes(
    servers: str, topic: str, follow: bool, options: Mapping[str, str], decoder: MessageDecoder
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each change with the bytes of its key."""
    repeats: dict[tuple[str, int], _Batch] = {}
    with _consumer(servers, topic, options) as consumer:
        for message in _messages(consumer, topic, follow):
            headers = {name: value.decode() for name, value in message.headers() or ()}
            if "_batch" not in headers or "_op" not in headers:
                raise _no_changes(topic, message)
            batch = int(headers["_batch"])
            seen = repeats.get((headers["_table"], message.partition()))
            if seen is None or seen.number != batch:
                seen = repeats[headers["_table"], message.partition()] = _Batch(batch)
            if "_attempt" in headers or seen.new((message.key(), headers["_op"], message.value())):
                yield message.key(), _change(message, headers, batch, decoder)


def read_topic(
    servers: str, topic: str | None, *, registry: str | None = None, options: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The rows of a table as the topic's changes leave it: the latest of each key that was not deleted."""
    rows: dict[bytes, dict[str, Any]] = {}
    for key, change in _checked_changes(servers, topic, False, registry, options):
        if change["_op"] == "delete":
            rows.pop(key, None)
        else:
            rows[key] = {name: value for name, value in change.items() if not name.startswith("_")}
    return list(rows.values())


def live_keys(settings: Mapping[str, Any], topic: str) -> set[bytes]:
    """The keys of a topic whose newest message has a value; `settings` are those of the client for Python."""
    keys: set[bytes] = set()
    options = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    with _consumer(str(settings["bootstrap.servers"]), topic, options) as consumer:
        for message in _messages(consumer, topic, follow=False):
            if message.value() is None:
                keys.discard(message.key())
            elif message.key() is not None:
                keys.add(message.key())
    return keys


class _Batch:
    """The changes of a batch in one partition: an equal one is a repetition."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._seen: set[tuple[bytes | None, str, bytes | None]] = set()

    def new(self, change: tuple[bytes | None, str, bytes | None]) -> bool:
        """Whether the change has not been seen before."""
        if change in self._seen:
            return False
        self._seen.add(change)
        return True


def _change(message: Any, headers: Mapping[str, str], batch: int, decoder: MessageDecoder) -> dict[str, Any]:
    return {
        **decoder.key(message.key(), headers),
        **decoder.value(message.value()),
        "_op": headers["_op"],
        "_batch": batch,
        "_table": headers["_table"],
        **({"_attempt": headers["_attempt"]} if "_attempt" in headers else {}),
        "_watermark": datetime.fromisoformat(headers["_watermark"]) if headers.get("_watermark") else None,
    }


@contextmanager
def _consumer(servers: str, topic: str, options: Mapping[str, str]) -> Iterator[Any]:
    try:
        from confluent_kafka import Consumer
    except ImportError:
        raise client_missing() from None
    given = {name.removeprefix("kafka."): value for name, value in options.items()}
    noted: list[Any] = []
    wanted: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "keyfold-read-changes",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 0,
        "error_cb": noted.append,
        **python(given),
    }
    with explain_errors(topic, lambda: noted[-1] if noted else None, reads=servers):
        consumer = Consumer(wanted)
        try:
            hint, protocol = f"is a Kafka broker at {servers}?", wanted.get("security.protocol")
            listening.require(wanted["bootstrap.servers"], topic, hint, protocol)
            yield consumer
        finally:
            consumer.close()


def _messages(consumer: Any, topic: str, follow: bool) -> Iterator[Any]:
    """All messages from the first to the end that each partition has when it is reached."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    found = consumer.list_topics(topic, timeout=_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    consumer.assign([TopicPartition(topic, number, 0) for number in found.partitions])
    ended: set[int] = set()
    while follow or len(ended) < len(found.partitions):
        for message in consumer.consume(_AT_ONCE, timeout=0.2):
            error = message.error()
            if error is None:
                ended.discard(message.partition())
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            elif not error.retriable():
                raise KafkaException(error)


def _no_changes(topic: str, message: Any) -> RunError:
    return RunError(
        f"topic {topic} has a message that is not a table's change",
        given=f"partition {message.partition()}, offset {message.offset()}: no header _op and _batch",
        hint="read_changes reads what table.to(kf.kafka(...)) or history=kf.kafka(...) has written",
    )
