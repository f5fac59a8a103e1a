"""The topic of positions: which batch of a table is the newest in the topic that its sink writes to.

A sink writes its position in the transaction of the batch, so both are there or neither. The topic is
compacted: of each sink the newest position stays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from keyfold.engine.kafka import topics

TOPIC: Final = "keyfold-positions"
# Segments are closed after an hour, so that compaction keeps up with a batch every second.
_CONFIG: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}
_SECONDS: Final = 30.0
_FIRST_LOOK: Final = 1_000


def require(client: Mapping[str, Any]) -> None:
    """Creates the topic unless it exists."""
    if not topics.exists(client, TOPIC):
        topics.create(str(client["bootstrap.servers"]), TOPIC, 1, config=_CONFIG, client=client)


def read(client: Mapping[str, Any], identity: str) -> int | None:
    """The newest committed position of a sink; None if it has none."""
    from confluent_kafka import Consumer, TopicPartition

    wanted = {
        "group.id": "keyfold-positions",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "error_cb": lambda error: None,
    }
    consumer = Consumer({**client, **wanted})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=_SECONDS)
        # From the end backwards, since the newest is usually near it.
        length = _FIRST_LOOK
        while True:
            start = max(low, high - length)
            found = _newest(consumer, identity, start)
            if found is not None or start <= low:
                return found
            length *= 10
    finally:
        consumer.close()


def _newest(consumer: Any, identity: str, start: int) -> int | None:
    """The newest position between an offset and the end."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    consumer.assign([TopicPartition(TOPIC, 0, start)])
    found, deadline = None, time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        # Returns when it has that many, or the time is over.
        for message in consumer.consume(1_000, timeout=0.1):
            error = message.error()
            if error is None:
                if message.key() == identity.encode():
                    found = int(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(error)
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer for topic {TOPIC}"))
