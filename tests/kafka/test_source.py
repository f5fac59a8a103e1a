"""Topics as streams, on a real broker: formats, rejected messages, restarts, growth, loss."""

from __future__ import annotations

import base64
import io
import json
import logging
from pathlib import Path
from typing import Any

import fastavro
import pytest

import keyfold as kf
from keyfold.engine.handle import Handle
from keyfold.engine.kafka.broker import Broker
from keyfold.errors import DeclarationError, QueryFailed, RunError
from keyfold.settings import load
from tests.kafka import registry as registries
from tests.kafka.cluster import FAST, Cluster

pytestmark = pytest.mark.jvm

SCHEMA = "id string, amount double, at timestamp"
NO_NAME = "Unexpected character ('b' (code 98)): was expecting double-quote to start field name"
SMALL = {"spark.sql.shuffle.partitions": "1"}


def order(id: str, amount: float = 1.0, at: str = "2026-05-01T00:00:00Z", **message: Any) -> dict[str, Any]:
    return {"value": json.dumps({"id": id, "amount": amount, "at": at}), **message}


def started(app: kf.App, spark: Any, home: Path) -> Handle:
    handle = app.start(spark=spark, home=home, **{"spark": SMALL} if spark is None else {})
    handle.drain()
    return handle


def crashed(handle: Handle) -> None:
    """Stops the app as if it had died between the state's and the batch's commit."""
    handle.stop()
    streams = [handle.home.stream_home(stream.name) for stream in handle.shared]
    for home in (*streams, *(handle.home.table(table.name) for table in handle.spec.tables)):
        home.spark.uncommit_last()


def why(rows: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Partition, offset and reason of rejected rows, in order."""
    found = [(r["partition"], r["offset"], f"{r['reason']}: {r.get('cause', '')}".strip(": ")) for r in rows]
    return sorted(found)


def test_messages_of_every_format_become_rows_or_are_rejected_with_their_place(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    app = kf.App("formats")
    topics = {name: cluster.topic(name) for name in ("csv", "text", "raw", "avro", "plain")}
    topics["json"] = cluster.topic("json", max_message_bytes="20000000")

    def stream(name: str, schema: str | None, **more: Any) -> Any:
        source = kf.kafka(cluster.address, topic=topics[name], **{"format": name, **more})
        return app.stream(f"{name}_in", source, schema=schema)

    meta = {"metadata": ["key", "headers", "partition", "offset", "timestamp"], "key_format": "text"}
    stream("json", SCHEMA, **meta).by("id").table(
        "json",
        n="count(*)",
        total="sum(amount)",
        key="max(kafka_key)",
        at="max(kafka_offset)",
        header="max(decode(kafka_headers[0].value, 'utf-8'))",
    )
    stream("csv", "id string, amount double", options={"sep": ";"}).by("id").table("csv", n="sum(amount)")
    stream("text", None).by("value").table("text", n="count(*)")
    stream("raw", None).by("value").table("raw", n="count(*)")
    cluster.produce(
        topics["json"],
        [
            order("a", 2.0, key="k1", headers=[("h", b"x")]),
            order("a", 3.0, key="k2"),
            "{bad",
            '{"id": "b", "amount": "much"}',
            {"value": None, "key": "gone"},
            b"\xff\x00",
            '{"id": "b"} {"id": "c"}',
            '[{"id": "b"}]',
            "",
            {"value": '{"id": "b"}', "key": b"\xff"},
            '{"amount": 1}',
            json.dumps({"id": "big", "amount": 1, "note": "x" * 10_000_000}),
            "y" * 10_000_000,
        ],
        **{"message.max.bytes": 20_000_000},
    )
    cluster.produce(topics["csv"], ["a;2.5\n", "a;much", "a", "a;1\nb;2", b"\xff;1", "", '"q;\nq";4'])
    cluster.produce(topics["text"], ["hello", "hello", b"\xff\xfe"])
    cluster.produce(topics["raw"], [b"\xff\xfe", None])

    with registries.serving() as registry:
        second = _avro_tables(app, stream, registry, cluster, topics)
        with started(app, spark, tmp_path) as handle:
            found = handle.table("json").rows()
            assert [(r["id"], r["n"], r["total"], r["key"], r["at"], r["header"]) for r in found] == [
                ("a", 2, 5.0, "k2", 1, "x"),
                ("big", 1, 1.0, None, 11, None),
            ]
            *others, (_, _, huge) = why(handle.rejected("json"))
            assert huge.startswith("does not parse: malformed JSON: Unrecognized token")
            assert others == [
                (0, 2, f"does not parse: malformed JSON: {NO_NAME} at character 2"),
                (0, 3, 'does not parse: column amount: "much" is not a valid double'),
                (0, 4, "a tombstone: the message has no value: key gone"),
                (0, 5, "the message is not valid UTF-8"),
                (0, 6, "does not parse: more than one JSON value"),
                (0, 7, "does not parse: a JSON array, and a message is one row"),
                (0, 8, "does not parse: the message is empty"),
                (0, 9, "the message's key is not valid UTF-8"),
                (0, 10, "key id is null"),
            ]
            raw = {r["offset"]: r["raw"] for r in handle.rejected("json")}
            assert raw[2] == "{bad"
            assert raw[12] == "y" * 64 * 1024 + "... (10000000 bytes)"
            assert raw[5] == base64.b64encode(b"\xff\x00").decode()
            assert {r["topic"] for r in handle.rejected("json")} == {topics["json"]}

            assert [(r["id"], r["n"]) for r in handle.table("csv").rows()] == [("a", 2.5), ("q;\nq", 4.0)]
            assert why(handle.rejected("csv")) == [
                (0, 1, 'does not parse: column amount: "much" is not a valid double'),
                (0, 2, "does not parse: 1 columns, the schema has 2"),
                (0, 3, "does not parse: more than one CSV record"),
                (0, 4, "the message is not valid UTF-8"),
                (0, 5, "does not parse: the message is empty"),
            ]
            assert [(r["value"], r["n"]) for r in handle.table("text").rows()] == [("hello", 2)]
            assert why(handle.rejected("text")) == [(0, 2, "the message is not valid UTF-8")]
            assert [(r["value"], r["n"]) for r in handle.table("raw").rows()] == [(b"\xff\xfe", 1)]
            assert why(handle.rejected("raw")) == [(0, 1, "a tombstone: the message has no value")]
            _check_avro(handle, registry, second)


V1 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "unread", "type": {"type": "array", "items": "string"}},
    ],
}
V2 = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "amount", "type": ["null", "double"]},
        {"name": "id", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "address", "type": "Address"},
    ],
}
ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "boolean"}]}


def _avro_tables(app: kf.App, stream: Any, registry: Any, cluster: Cluster, topics: dict[str, str]) -> int:
    schema = "id string, amount double, at timestamp, address struct<city: string>"
    for name, more in (
        ("avro", {"format": kf.avro(registry=registry.url)}),
        ("plain", {"format": kf.avro(schema=json.dumps(V1))}),
    ):
        stream(name, schema, **more).by("id").table(
            name, n="count(*)", total="sum(amount)", newest="max(at)", city="max(address.city)"
        )
    first = registry.register("orders-value", V1)
    registry.register("address", ADDRESS)
    references = [{"name": "Address", "subject": "address", "version": 1}]
    second = registry.register("orders-value", V2, references=references)
    other = registry.register("orders-value", OTHER)
    at = 1777593600000
    whole = {**V2, "fields": [*V2["fields"][:2], {"name": "address", "type": ADDRESS}]}
    good = _avro(V1, {"id": "a", "amount": 3, "at": at, "unread": ["x", "y"]})
    cluster.produce(
        topics["avro"],
        [
            _framed(first, good),
            _framed(second, _avro(whole, {"id": "b", "amount": None, "address": {"city": "Rome"}})),
            _framed(second, _avro(whole, {"id": "b", "amount": 0.5, "address": {"city": "Oslo"}})),
            _framed(other, _avro(OTHER, {"amount": True})),
            _framed(77, good),
            good,
            b"\x00\x00",
            _framed(first, good[:4]),
            _framed(first, good + b"!"),
            # A string that claims two gigabytes.
            _framed(first, b"\xfe\xff\xff\xff\x0f" + b"x" * 10),
        ],
    )
    cluster.produce(topics["plain"], [good, b"\xff"])
    return second


def _check_avro(handle: Handle, registry: Any, second: int) -> None:
    rows = [(r["id"], r["n"], r["total"], r["city"]) for r in handle.table("avro").rows()]
    assert rows == [("a", 1, 3.0, None), ("b", 2, 0.5, "Rome")]
    assert handle.table("avro").get("a")["newest"].isoformat() == "2026-05-01T00:00:00+00:00"
    reasons = {offset: reason for _, offset, reason in why(handle.rejected("avro"))}
    assert reasons[3] == "does not parse: column amount: an Avro boolean can't be read as double"
    assert reasons[4] == "schema 77 is unknown to the registry"
    assert (
        reasons[5]
        == reasons[6]
        == ("does not parse: it does not begin with a zero byte and the id of a schema")
    )
    assert "not a record of its Avro schema" in reasons[7]
    assert reasons[8] == "does not parse: bytes are left after the Avro record"
    assert "a length of" in reasons[9]
    assert registry.asked.count(f"/schemas/ids/{second}") == 1, "a process asks once"
    assert [(r["id"], r["n"]) for r in handle.table("plain").rows()] == [("a", 1)]
    assert len(handle.rejected("plain")) == 1


def _avro(schema: Any, record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def _framed(number: int, record: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + record


@pytest.mark.parametrize("shared", [False, None], ids=["direct", "shared"])
def test_restarts_crashes_and_new_partitions_count_each_message_once_and_in_order(
    spark: Any, cluster: Cluster, tmp_path: Path, shared: bool | None
) -> None:
    topic = cluster.topic(partitions=3)
    app = kf.App("restarts")
    source = kf.kafka(cluster.address, topic=topic, start={0: 2}, metadata=["partition", "offset"])
    orders = app.stream("orders", source, schema=SCHEMA, shared=shared)
    orders.by("id").table("counts", n="count(*)", total="sum(amount)")
    orders.by("id").last(100).table("seen", order="collect_list(concat(kafka_partition, ':', kafka_offset))")
    sent = [order("a", n, partition=n % 3) for n in range(12)]
    cluster.produce(topic, sent)
    with started(app, spark, tmp_path) as handle:
        first = handle.table("seen").get("a")["order"]
        assert handle.table("counts").get("a")["n"] == 10, "offsets below start are left out"
        crashed(handle)
    expected = [f"{p}:{o}" for p in range(3) for o in range(4) if (p, o) not in ((0, 0), (0, 1))]
    assert first == expected

    cluster.produce(topic, [order("a", 100, partition=1), {"value": "{bad", "partition": 2}])
    with started(app, spark, tmp_path) as handle:
        assert handle.table("counts").get("a")["n"] == 11
        assert handle.table("seen").get("a")["order"] == [*expected, "1:4"], "the same order again"
        reading = {"counts", "seen"} if shared is False else {"orders"}
        status = {**handle.status()["streams"], **handle.status()["tables"]}
        for name in reading:
            left = (status[name]["messages_left"], status[name]["messages_left_by_partition"])
            assert left == (0, {})
        assert {name for name in status if status[name]["rejected"]} == reading
        assert why(handle.rejected("orders")) == [
            (2, 4, f"does not parse: malformed JSON: {NO_NAME} at character 2")
        ]
        cluster.grow(topic, 5)
        cluster.produce(topic, [order("b", 1, partition=4)])
        _drained_until(handle, lambda: handle.table("counts").get("b"))
        crashed(handle)
    with started(app, spark, tmp_path) as handle:
        assert {r["id"]: r["n"] for r in handle.table("counts").rows()} == {"a": 11, "b": 1}


def _drained_until(handle: Handle, condition: Any) -> None:
    """Kafka's client learns of new partitions from time to time."""
    from keyfold.engine.polling import wait_until

    def there() -> bool:
        handle.drain()
        return bool(condition())

    assert wait_until(there, 60)


def test_lost_messages_stop_a_table_or_are_warned_of_and_named(
    spark: Any, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from confluent_kafka import TopicPartition

    topic = cluster.topic(partitions=1)

    def declared(on_data_loss: Any) -> kf.App:
        app = kf.App("loss")
        source = kf.kafka(cluster.address, topic=topic, on_data_loss=on_data_loss)
        app.stream("orders", source, schema=SCHEMA).by("id").table("counts", n="count(*)")
        return app

    cluster.produce(topic, [order("a")] * 3)
    started(declared("fail"), spark, tmp_path).stop()
    cluster.produce(topic, [order("a")] * 5)
    admin = cluster.admin()
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0, 6)].result(30)
    with pytest.raises(QueryFailed, match=f"(?s)deleted from Kafka.*{topic}-0: offsets 3 to 5.*on_data_loss"):
        started(declared("fail"), spark, tmp_path)
    with caplog.at_level(logging.WARNING, "keyfold"), started(declared("warn"), spark, tmp_path) as handle:
        assert handle.table("counts").get("a")["n"] == 3 + 2
    assert f"{topic}-0: offsets 3 to 5 of 3 messages" in caplog.text

    cluster.grow(topic, 2)
    cluster.produce(topic, [order("b", partition=1)])
    with started(declared("fail"), spark, tmp_path) as handle:
        _drained_until(handle, lambda: handle.table("counts").get("b"))
        cluster.delete(topic)
        cluster.create(topic, 1)
        cluster.produce(topic, [order("a")])
        with pytest.raises(QueryFailed, match=f"(?s)deleted from Kafka.*{topic}-1.*on_data_loss"):
            handle.wait(60)
    with pytest.raises(QueryFailed) as again:
        started(declared("fail"), spark, tmp_path)
    assert str(again.value).count("deleted and made again") == 2, "the end of one partition, and one is gone"


@pytest.mark.parametrize("shared", [False, True])
def test_a_topic_made_again_with_more_messages_than_were_read_of_the_old_one_is_not_read_on(
    spark: Any, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: bool
) -> None:
    topic = cluster.topic()

    def declared(on_data_loss: Any = "fail") -> kf.App:
        app = kf.App("again")
        source = kf.kafka(cluster.address, topic=topic, on_data_loss=on_data_loss)
        app.stream("orders", source, schema=SCHEMA, shared=shared).by("id").table("counts", n="count(*)")
        return app

    started(declared(), spark, tmp_path).stop()
    cluster.delete(topic)
    cluster.create(topic)
    cluster.produce(topic, [order("a")] * 2)
    with started(declared(), spark, tmp_path) as handle:
        assert handle.table("counts").get("a")["n"] == 2, "nothing had been read of the old one"
    cluster.delete(topic)
    cluster.create(topic)
    cluster.produce(topic, [order("b")] * 3)
    again = (
        f"{topic}-0: it was read up to offset 2 of a topic with another id: the topic was deleted and made"
    )
    for _ in range(2):
        with pytest.raises(QueryFailed, match=f"(?s){again}.*on_data_loss='warn'.*keyfold reset"):
            started(declared(), spark, tmp_path)
    with caplog.at_level(logging.WARNING, "keyfold"), started(declared("warn"), spark, tmp_path) as handle:
        assert handle.table("counts").get("b")["n"] == 1, "from the old position"
    assert again in caplog.text
    started(declared(), spark, tmp_path).stop()  # by now the positions are of the new one


def test_topics_of_one_name_in_two_clusters_are_each_read_on(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    with Broker(tmp_path / "other", load(), java_options=FAST) as broker:
        other, topic = Cluster(broker.address), cluster.topic()
        other.create(topic)
        app = kf.App("clusters")
        eu, us = (
            app.stream(name, kf.kafka(one.address, topic=topic), schema=SCHEMA)
            for name, one in (("eu", cluster), ("us", other))
        )
        # Both sources of the first stream, which is read twice, come before that of the second.
        both = eu.transform(lambda rows: rows).union(us)
        both.by("id").table("counts", n="count(*)")
        cluster.produce(topic, [order("a")] * 3)
        other.produce(topic, [order("a")])
        started(app, spark, tmp_path / "home").stop()
        cluster.produce(topic, [order("a")])
        with started(app, spark, tmp_path / "home") as handle:
            assert handle.table("counts").get("a")["n"] == 5
        other.delete(topic)
        other.create(topic)
        other.produce(topic, [order("a")] * 9)
        with pytest.raises(QueryFailed, match=f"(?s)of stream us .*{topic}-0: it was read up to offset 1 of"):
            started(app, spark, tmp_path / "home")


def test_brokers_and_topics_that_are_away_are_waited_for_until_the_deadline(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    def declared(servers: str, topic: str | None, **more: Any) -> kf.App:
        app = kf.App("away")
        source = kf.kafka(servers, topic=topic, wait="1 second", **more)
        app.stream("orders", source, schema=SCHEMA).by("id").table("counts", n="count(*)")
        return app

    with pytest.raises(RunError, match=r"(?s)brokers of stream orders could not be reached.*127.0.0.1:9"):
        declared("127.0.0.1:9", "t").start(spark=spark, home=tmp_path)
    with pytest.raises(RunError, match="there is no topic nowhere"):
        declared(cluster.address, "nowhere").start(spark=spark, home=tmp_path)
    with pytest.raises(RunError, match=r"(?s)there is no topic nowhere-\.\*.*correct pattern="):
        declared(cluster.address, None, pattern="nowhere-.*").start(spark=spark, home=tmp_path)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"start": {3: 0}}, "partition 3 of topic .* is not there: the topic has 1 partitions"),
        ({"start": {0: 99}}, "partition 0 of topic .* ends at offset 0"),
        (
            {"metadata": ["key"], "key_format": "json", "key_schema": "id decimal(99, 2)"},
            "parse key_schema of stream",
        ),
    ],
    ids=["partition", "offset", "key-schema"],
)
def test_a_start_that_the_topic_does_not_have_and_a_type_that_spark_does_not_have_are_refused(
    spark: Any, cluster: Cluster, tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    app = kf.App("refused")
    source = kf.kafka(cluster.address, topic=cluster.topic(), **more)
    app.stream("orders", source, schema=SCHEMA).by("id").table("counts", n="count(*)")
    with pytest.raises(DeclarationError, match=words):
        app.start(spark=spark, home=tmp_path)
