"""A Kafka cluster as tests use it: makes topics, produces and consumes by Kafka's own client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

# A broker lives for a minute or two: Java's second compiler would not pay for itself.
FAST = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SECONDS = 30.0

_numbers = count()


@dataclass(frozen=True)
class Cluster:
    """A broker at an address; `client` are settings of the client, such as credentials."""

    address: str
    client: tuple[tuple[str, Any], ...] = ()

    def settings(self, **more: Any) -> dict[str, Any]:
        """The settings of a client, without its own lines on stderr."""
        quiet = {"log_level": 0, "error_cb": lambda error: None}
        return {"bootstrap.servers": self.address, **quiet, **dict(self.client), **more}

    def topic(self, prefix: str = "t", partitions: int = 1, **config: str) -> str:
        """A new topic, whose name no other test uses."""
        name = f"{prefix}-{next(_numbers)}"
        self.create(name, partitions, **config)
        return name

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        """Makes a topic; settings have `_` for `.`."""
        wanted = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()  # with it, its requests would end
        admin.create_topics([NewTopic(name, partitions, 1, config=wanted)])[name].result(SECONDS)

    def delete(self, name: str) -> None:
        """Deletes a topic."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(SECONDS)

    def grow(self, name: str, partitions: int) -> None:
        """Adds partitions to a topic."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(SECONDS)

    def admin(self) -> AdminClient:
        """The client that manages topics."""
        return AdminClient(self.settings())

    def produce(self, topic: str, messages: Iterable[Any], **options: Any) -> None:
        """Sends messages, and returns when they are delivered.

        A message is a value (bytes, str, None, or what JSON can hold), or a dict with `value` and more
        arguments of the client's `produce`: key, partition, headers, timestamp.
        """
        producer = Producer(self.settings(**options))
        for message in messages:
            given = message if isinstance(message, dict) and "value" in message else {"value": message}
            producer.produce(topic, **{**given, "value": _bytes(given["value"])})
        assert producer.flush(SECONDS) == 0

    def consume(self, topic: str, *, committed: bool = True, **options: Any) -> list[Message]:
        """All messages that are in a topic now, partition by partition; with `committed`, only those of
        transactions that were committed.
        """
        level = "read_committed" if committed else "read_uncommitted"
        wanted = {
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
        }
        consumer = Consumer(self.settings(**wanted, **options))
        try:
            partitions = consumer.list_topics(topic, SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            found: list[Message] = []
            ended: set[int] = set()
            while len(ended) < len(partitions):
                message = consumer.poll(SECONDS)
                assert message is not None, f"no end of {topic} within {SECONDS} s"
                if message.error() is None:
                    found.append(message)
                else:
                    assert message.error().code() == -191, message.error()  # the end of a partition
                    ended.add(message.partition())
            return sorted(found, key=lambda m: (m.partition(), m.offset()))
        finally:
            consumer.close()

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset after the newest message."""
        consumer = Consumer(self.settings(**{"group.id": "tests"}))
        try:
            return int(
                consumer.get_watermark_offsets(TopicPartition(topic, partition, OFFSET_END), SECONDS)[1]
            )
        finally:
            consumer.close()


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
