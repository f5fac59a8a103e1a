"""What sinks write with, without Spark: exactly once through a broker that is away, and errors in words."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.engine.kafka import positions
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.kafka.failures import Retry
from keyfold.engine.kafka.producer import AtLeastOnce, ExactlyOnce
from keyfold.engine.polling import wait_until
from keyfold.errors import RunError
from keyfold.settings import load
from tests.kafka.cluster import FAST, Cluster

Kind = type[AtLeastOnce] | type[ExactlyOnce]
KINDS = pytest.mark.parametrize("kind", [AtLeastOnce, ExactlyOnce])


def producer(kind: Kind, address: str, topic: str, identity: str = "") -> AtLeastOnce | ExactlyOnce:
    client = {"bootstrap.servers": address, "log_level": 0}
    if kind is AtLeastOnce:
        return AtLeastOnce(topic, client, lambda: False)
    return ExactlyOnce(topic, client, lambda: False, identity or f"id-{topic}")


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [message.value() for message in cluster.consume(topic)]


@KINDS
def test_a_topic_that_is_missing_and_brokers_that_are_away_are_errors_at_the_start(
    cluster: Cluster, kind: Kind
) -> None:
    with pytest.raises(RunError, match="there is no topic nowhere") as missing:
        producer(kind, cluster.address, "nowhere").ready(5)
    assert "create it" in str(missing.value)
    with pytest.raises(RunError, match="do not answer"):
        producer(kind, "127.0.0.1:9", "t").ready(0.5)


@KINDS
def test_a_change_that_is_too_large_is_an_error_and_leaves_nothing(cluster: Cluster, kind: Kind) -> None:
    topic = cluster.topic("small", max_message_bytes="2000")
    for size in (5_000, 5_000_000):  # refused by the broker, and by the client
        writer = producer(kind, cluster.address, topic)
        writer.ready(20)
        with pytest.raises(RunError, match=f"larger than topic {topic} accepts") as error:
            writer.write(0, lambda size=size: [(b"k", os.urandom(size), [])])
        assert "max.message.bytes" in str(error.value)
        writer.close()
    assert values(cluster, topic) == []


def test_a_newer_producer_fences_an_older_one_and_knows_its_position(cluster: Cluster) -> None:
    topic = cluster.topic("fenced")
    old = producer(ExactlyOnce, cluster.address, topic)
    assert old.ready(20) is None
    old.write(7, lambda: [(b"k", b"7", [])])
    # Another sink's positions in the same topic are not taken for ours.
    other = producer(ExactlyOnce, cluster.address, topic, "another")
    other.ready(20)
    other.write(30, lambda: [(b"k", b"30", [])])
    new = producer(ExactlyOnce, cluster.address, topic)
    assert new.ready(20) == 7
    with pytest.raises(RunError, match="fenced"):
        old.write(8, lambda: [(b"k", b"old", [])])
    new.write(8, lambda: [(b"k", b"8", [])])
    assert values(cluster, topic) == [b"7", b"30", b"8"]


def test_a_position_is_found_far_from_the_end(cluster: Cluster) -> None:
    topic = cluster.topic("far")
    writer = producer(ExactlyOnce, cluster.address, topic)
    writer.ready(20)
    writer.write(3, lambda: [(b"k", b"3", [])])
    cluster.produce(positions.TOPIC, ({"value": "1", "key": "others"} for _ in range(2_500)))
    assert positions.read({"bootstrap.servers": cluster.address}, f"id-{topic}") == 3
    assert positions.read({"bootstrap.servers": cluster.address}, "nobody") is None


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, load(), java_options=FAST) as broker:
        yield broker


def test_a_broker_that_is_away_for_a_while_loses_and_repeats_nothing(own_broker: Broker) -> None:
    cluster = Cluster(own_broker.address)
    topic = cluster.topic("away", partitions=2)
    writer = producer(ExactlyOnce, own_broker.address, topic)
    writer.ready(20)
    writer.write(0, lambda: [(b"k", b"0", [])])
    own_broker.kill()
    begun = threading.Event()

    def records() -> Iterator[tuple[bytes, bytes, list[tuple[str, str | bytes | None]]]]:
        begun.set()
        yield b"k", b"1", []
        yield b"l", b"1", []

    def write() -> None:
        while True:
            try:
                return writer.write(1, records)
            except Retry:
                continue

    writing = threading.Thread(target=write)
    writing.start()
    assert wait_until(begun.is_set, 30)
    own_broker.start()
    writing.join(90)
    assert not writing.is_alive()
    assert sorted(message.value() for message in cluster.consume(topic)) == [b"0", b"1", b"1"]
    assert producer(ExactlyOnce, own_broker.address, topic).ready(20) == 1
