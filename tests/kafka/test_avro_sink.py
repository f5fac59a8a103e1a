"""A table's changes in Avro, read back by Confluent's own deserializer, and keys in every format."""

from __future__ import annotations

import struct
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

import keyfold as kf
from keyfold.errors import BadOption, RunError
from tests.kafka import registry as registries
from tests.kafka.cluster import Cluster
from tests.kafka.test_sink import Feed

pytestmark = pytest.mark.jvm

SCHEMA = "region string, amount decimal(10,2), at timestamp, day date, tags array<string>, n bigint"


def declared(feed: Feed, sink: Any, **columns: str) -> kf.App:
    app = kf.App("shop")
    rows = app.stream("orders", kf.files(str(feed.directory)), SCHEMA)
    rows.by("region").table("totals", n="count(*)", total="sum(amount)", **columns).to(sink)
    return app


def run(app: kf.App, spark: Any, home: Path) -> None:
    with app.start(spark=spark, home=home) as handle:
        handle.drain()


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path / "in")


def decoded(registry: Any, topic: str, data: bytes, key: bool = False) -> Any:
    """By Confluent's own deserializer."""
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    return read(data, SerializationContext(topic, MessageField.KEY if key else MessageField.VALUE))


def test_rows_are_avro_records_of_a_registered_schema(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic, home = cluster.topic("avro"), tmp_path / "home"
    with registries.serving() as registry:
        sink = kf.kafka(
            cluster.address, topic=topic, format=kf.avro(registry=registry.url), key_format="avro"
        )
        columns = {
            "last": "max(at)",
            "day": "max(day)",
            "tags": "max_by(tags, at)",
            "place": "max(named_struct('n', n, 'region', region))",
            "half": "avg(n) / 2",
        }
        feed.put({"region": "é", "amount": 2.5, "at": "2026-01-01T10:00:00.123456Z", "day": "2026-01-01"})
        feed.put({"region": "us", "n": -7, "tags": ["a", None]})
        run(declared(feed, sink, **columns), spark, home)
        feed.put({"region": "é", "amount": 1.25})
        run(declared(feed, sink, **columns), spark, home)

        messages = cluster.consume(topic)
        keys = [decoded(registry, topic, m.key(), key=True) for m in messages]
        rows = [decoded(registry, topic, m.value()) for m in messages]
        assert keys == [{"region": row["region"]} for row in rows]
        newest = {row["region"]: row for row in rows}
        assert newest["é"] == {
            "region": "é",
            "n": 2,
            "total": Decimal("3.75"),
            "last": datetime(2026, 1, 1, 10, 0, 0, 123456, UTC),
            "day": date(2026, 1, 1),
            "tags": None,
            "place": {"n": None, "region": "é"},
            "half": None,
        }
        assert newest["us"]["place"] == {"n": -7, "region": "us"}
        assert newest["us"]["half"] == -3.5
        assert set(registry.subjects) == {f"{topic}-key", f"{topic}-value"}
        assert len(registry.subjects[f"{topic}-value"]) == 1, "the second start found its schema"

        changes = list(kf.read_changes(cluster.address, topic, registry=registry.url))
        assert [(c["_op"], c["region"], c["n"]) for c in changes] == [
            ("upsert", row["region"], row["n"]) for row in rows
        ]
        with pytest.raises(RunError, match="in Avro"):
            list(kf.read_changes(cluster.address, topic))
        # keyfold reads what it writes.
        again = kf.App("again")
        source = kf.kafka(
            cluster.address, topic=topic, format=kf.avro(registry=registry.url), metadata=["key"],
            key_format="avro", key_schema="region string",
        )  # fmt: skip
        stream = again.stream("rows", source, "n bigint, total decimal(20,2), last timestamp")
        stream.by(region="kafka_key.region").table("newest", n="max(n)", last="max(last)")
        with again.start(spark=spark, home=tmp_path / "again") as handle:
            handle.drain()
            found = {r["region"]: (r["n"], r["last"]) for r in handle.table("newest").rows()}
        assert found == {"é": (2, newest["é"]["last"]), "us": (1, None)}

        with pytest.raises(RunError, match=r"(?s)incompatible.*field half has another type"):
            run(declared(feed, sink, **{**columns, "half": "min(region)"}), spark, tmp_path / "other")


def test_the_topic_has_every_change_once_and_deletes_are_tombstones(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("recount", partitions=3)
    with registries.serving() as registry:
        app = kf.App("shop")
        rows = app.stream("clicks", kf.files(str(feed.directory)), "who bigint, at timestamp", time="at")
        rows.by("who").table("seen", n="count(*)", ttl="1 hour").to(
            kf.kafka(cluster.address, topic=topic, format=kf.avro(registry=registry.url), key_format="long")
        )
        counted: Counter[int] = Counter()
        for batch in range(4):
            who = [n for n in range(40) if n % (batch + 1) == 0]
            feed.put(*({"who": n, "at": f"2026-01-01T10:0{batch}:00Z"} for n in who))
            counted.update(who)
            run(app, spark, tmp_path / "home")
        feed.put({"who": -1, "at": "2026-01-01T20:00:00Z"})
        run(app, spark, tmp_path / "home")
        newest: dict[int, Any] = {}
        highest: Counter[int] = Counter()
        for message in cluster.consume(topic):
            (who,) = struct.unpack(">q", message.key())
            value = message.value()
            newest[who] = None if value is None else decoded(registry, topic, value)
            if value is not None:
                assert newest[who]["who"] == who
                highest[who] = max(highest[who], newest[who]["n"])
        assert highest == counted + Counter({-1: 1})
        assert {who for who, row in newest.items() if row is not None} == {-1}, "all others have expired"
        found = kf.read_table(cluster.address, topic, registry=registry.url)
        assert found == [{"who": -1, "n": 1}]
        assert [c["who"] for c in kf.read_changes(cluster.address, topic, registry=registry.url)
                if c["_op"] == "delete" and c["who"] == 5] == [5]  # fmt: skip


def test_what_a_key_or_a_registry_can_not_be_is_said(
    spark: Any, cluster: Cluster, feed: Feed, tmp_path: Path
) -> None:
    topic = cluster.topic("refused")
    feed.put({"region": "eu"})
    for options, problem, error in (
        ({"key_format": "long"}, "one column of type bigint", BadOption),
        ({"format": kf.avro(registry="http://me:hunter2@127.0.0.1:9")}, "can't be reached", RunError),
    ):
        with pytest.raises(error, match=problem) as raised:
            run(
                declared(feed, kf.kafka(cluster.address, topic=topic, **options)),
                spark,
                tmp_path / problem[:3],
            )
        assert "hunter2" not in str(raised.value)
