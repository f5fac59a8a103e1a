"""The Kafka sink: its messages, exactly once through crashes and a broker that is away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

import keyfold as kf
from keyfold.errors import RunError
from keyfold.fault_points import FaultPoint, handled_by
from tests.engine.recovery.test_sinks import as_before
from tests.kafka.cluster import Cluster

pytestmark = pytest.mark.jvm


class Crash(Exception):
    """Ends a sink between two steps, as a crash would."""


class Feed:
    """A directory of JSON rows, a file per batch."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.number = directory, 0
        directory.mkdir()

    def put(self, *rows: dict[str, Any]) -> None:
        file = self.directory / f"{self.number:04d}.json"
        temporary = file.with_name(f".{file.name}")
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
        temporary.rename(file)
        self.number += 1


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in")


def totals(feed: Feed, address: str, *topics: str, name: str | None = None, **options: Any) -> kf.App:
    app = kf.App("shop")
    rows = app.stream("orders", kf.files(str(feed.directory)), "region string, amount double, at timestamp")
    table = rows.by("region").table("totals", n="count(*)", total="sum(amount)", last="max(at)")
    for topic in topics:
        table.to(kf.kafka(address, topic=topic, **options), name=name)
    return app


def told(message: Message) -> tuple[Any, Any, str, str]:
    """Key, value, operation and batch of a message."""
    headers = {name: value.decode() for name, value in message.headers() or []}
    value = None if message.value() is None else json.loads(message.value())
    return message.key().decode(), value, headers["_op"], headers["_batch"]


def test_changes_are_messages_with_key_row_and_headers(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("totals")
    feed.put({"region": "eu", "amount": 2.5, "at": "2026-01-01T10:00:00.123456Z"})
    with totals(feed, cluster.address, topic).start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
        feed.put({"region": "eu", "amount": 1.0}, {"region": "é", "amount": None})
        handle.drain()
    messages = cluster.consume(topic)
    first, *others = messages
    row = {"region": "eu", "n": 1, "total": 2.5, "last": "2026-01-01T10:00:00.123456Z"}
    assert told(first) == ("eu", row, "upsert", "0")
    assert {name: value.decode() for name, value in first.headers()} == {
        "_op": "upsert", "_batch": "0", "_table": "shop.totals", "_watermark": "", "_key": "region"
    }  # fmt: skip
    found = {told(m)[0]: told(m)[1:] for m in others}
    assert found["eu"] == ({**row, "n": 2, "total": 3.5}, "upsert", "1")
    assert found["é"] == ({"region": "é", "n": 1, "total": None, "last": None}, "upsert", "1"), "nulls stay"


def test_a_window_s_key_is_json_and_an_expired_row_is_a_tombstone(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("visits")
    app = kf.App("web")
    rows = app.stream("clicks", kf.files(str(feed.directory)), "who string, at timestamp", time="at")
    rows.by("who").session("10 minutes").table("visits", n="count(*)").to(
        kf.kafka(cluster.address, topic=topic)
    )
    feed.put({"who": "a", "at": "2026-01-01T10:00:00Z"})
    with app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
        feed.put({"who": "a", "at": "2026-01-01T10:05:00Z"})
        handle.drain()
    messages = [told(m) for m in cluster.consume(topic)]
    bounds = {"who": "a", "window_start": "2026-01-01T10:00:00.000000Z"}
    old = {**bounds, "window_end": "2026-01-01T10:10:00.000000Z"}
    new = {**bounds, "window_end": "2026-01-01T10:15:00.000000Z"}
    assert [(json.loads(key), op) for key, _, op, _ in messages] == [
        (old, "upsert"), (old, "delete"), (new, "upsert")
    ]  # fmt: skip
    assert messages[1][1] is None
    assert messages[2][1] == {**new, "n": 2}


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_crash_after_the_messages_and_before_the_position(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path, delivery: str
) -> None:
    topic = cluster.topic("crash", partitions=2)
    app = totals(feed, cluster.address, topic, delivery=delivery)
    feed.put({"region": "eu", "amount": 1.0}, {"region": "us", "amount": 1.0})

    def crash(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.SINK_WRITTEN and facts["batch"] == 1:
            raise Crash

    with handled_by(crash), app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
        feed.put({"region": "eu", "amount": 2.0})
        with pytest.raises(RunError):
            handle.drain()
    feed.put({"region": "eu", "amount": 3.0})
    with app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
    seen = [(key, value["n"], batch) for key, value, _, batch in map(told, cluster.consume(topic))]
    repeated = [("eu", 2, "1")] if delivery == "at_least_once" else []
    assert sorted(seen) == sorted([("eu", 1, "0"), ("us", 1, "0"), ("eu", 2, "1"), *repeated, ("eu", 3, "2")])
    changes = list(kf.read_changes(cluster.address, topic))
    assert [(c["region"], c["n"], c["_batch"]) for c in changes if c["region"] == "eu"] == [
        ("eu", 1, 0), ("eu", 2, 1), ("eu", 3, 2)
    ]  # fmt: skip


def test_a_sink_that_had_a_number_stays_exactly_once_below_a_new_one_and_in_place_of_it(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic, other, home = cluster.topic("one"), cluster.topic("Other"), tmp_path / "home"

    def crash(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.SINK_WRITTEN and facts["batch"] == 1:
            raise Crash

    def seen(of: str) -> list[tuple[int, str]]:
        return [(value["n"], batch) for _, value, _, batch in map(told, cluster.consume(of))]

    feed.put({"region": "eu"})
    with (
        handled_by(crash),
        totals(feed, cluster.address, topic).start(spark=spark, home=home) as handle,
    ):
        handle.drain()
        feed.put({"region": "eu"})
        with pytest.raises(RunError):
            handle.drain()
    as_before(home)
    [file] = home.glob("**/sinks/0.json")
    identity = json.loads(file.read_text())
    assert identity["batch"] == 0, "that batch 1 is there, only the cluster knows"
    feed.put({"region": "eu"})
    with totals(feed, cluster.address, other, topic).start(spark=spark, home=home) as handle:
        handle.drain()
    assert seen(topic) == [(1, "0"), (2, "1"), (3, "2")]
    assert seen(other) == [(3, "2")]
    [file] = home.glob(f"**/sinks/kafka-{topic}.json")
    assert json.loads(file.read_text()) == {**identity, "batch": 2}

    # Under one name, a sink continues after its position in whatever topic it has.
    with totals(feed, cluster.address, topic, name="All").start(spark=spark, home=home) as handle:
        handle.drain()
    [file] = home.glob("**/sinks/all.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "batch": 1}))
    moved = cluster.topic("moved")
    with totals(feed, cluster.address, moved, name="all").start(spark=spark, home=home) as handle:
        handle.drain()
    assert seen(moved) == [(3, "2")]
    assert len(seen(topic)) == 3


def test_a_reset_table_is_written_from_its_first_batch_again(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    from keyfold.cli.main import main

    topic = cluster.topic("reset")
    app = totals(feed, cluster.address, topic)
    feed.put({"region": "eu", "amount": 1.0})
    for _ in range(2):
        with app.start(spark=spark, home=tmp_path / "home") as handle:
            handle.drain()
        assert main(["reset", "shop.totals", "--home", str(tmp_path / "home"), "--yes"]) == 0
    assert [told(m)[3] for m in cluster.consume(topic)] == ["0", "0"]


def test_a_fenced_producer_stops_the_app_and_the_next_start_goes_on(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("fenced")
    app = totals(feed, cluster.address, topic)
    feed.put({"region": "eu", "amount": 1.0})
    with app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
        [file] = (tmp_path / "home").glob(f"**/sinks/kafka-{topic}.json")
        identity = json.loads(file.read_text())["id"]
        other = Producer(cluster.settings(**{"transactional.id": identity}))
        other.init_transactions(30)
        feed.put({"region": "eu", "amount": 1.0})
        with pytest.raises(RunError, match="fenced"):
            handle.drain()
    with app.start(spark=spark, home=tmp_path / "home") as handle:
        handle.drain()
    assert [told(m)[1]["n"] for m in cluster.consume(topic)] == [1, 2]
