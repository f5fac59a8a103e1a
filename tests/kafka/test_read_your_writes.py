"""A producer waits until views show its message, by the position that Kafka tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

import keyfold as kf
from keyfold.errors import QueryError
from keyfold.read import open_home
from tests.kafka.cluster import SECONDS, Cluster

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("shared", [False, True])
def test_a_producer_reads_its_writes_by_the_position_of_its_message(
    spark: Any, cluster: Cluster, tmp_path: Path, shared: bool
) -> None:
    topic = cluster.topic("orders", 2)
    app = kf.App("shop")
    source = kf.kafka(cluster.address, topic=topic)
    orders = app.stream("orders", source, schema="region string, amount double", shared=shared)
    totals = orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
    orders.by("amount").table("amounts", n="count(*)")
    totals.changes().where("revenue > 10").by("n").table("big", regions="count(*)")
    tables = ("totals", "amounts", "big")
    handle = app.start(spark=spark, home=tmp_path)
    with handle, open_home(tmp_path) as home:
        reader = home.app("shop")
        # The second is one that big does not take, and the third one that is rejected.
        for value in ('{"region": "eu", "amount": 20}', '{"region": "us", "amount": 1}', "{bad"):
            after = sent(cluster, topic, value)
            for table in tables:
                with pytest.raises(QueryError) as caught:
                    reader.wait(table, after.next)
                assert caught.value.reason == "behind_bound"
                assert reader.wait(table, str(after), wait=SECONDS) is not None
        assert reader.table("totals").get("us")["n"] == 1
        assert [row["regions"] for row in reader.table("big").rows()] == [1]


class Sent:
    """The position of a message, as its producer was told."""

    def __init__(self, message: Message) -> None:
        self._place, self._offset = f"{message.topic()}/{message.partition()}", message.offset() or 0

    def __str__(self) -> str:
        return f"{self._place}@{self._offset}"

    @property
    def next(self) -> str:
        """That of the message after it, which is not sent yet."""
        return f"{self._place}@{self._offset + 1}"


def sent(cluster: Cluster, topic: str, value: str) -> Sent:
    told: list[Sent] = []
    producer = Producer(cluster.settings())
    producer.produce(topic, value, partition=1, on_delivery=lambda error, message: told.append(Sent(message)))
    assert producer.flush(SECONDS) == 0
    return told[0]
