"""Keys of messages in every format, and tombstones that delete, on a real broker."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import fastavro
import pytest

import keyfold as kf
from tests.kafka import registry as registries
from tests.kafka.cluster import Cluster
from tests.kafka.test_source import crashed, started, why

pytestmark = pytest.mark.jvm

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}


def avro(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_keys_of_every_format_become_columns_or_are_rejected_with_their_place(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    app = kf.App("keys")
    with registries.serving() as registry:
        record, number = registry.register("k", KEY), registry.register("n", "long")
        declared: dict[str, tuple[dict[str, Any], list[bytes | None], list[Any], dict[int, str]]] = {
            "json": (
                {"key_format": "json", "key_schema": "id string, n int"},
                [b'{"id": "a", "n": 1}', b'{"id": "b", "n": "x"}', b"{", b"\xff", b"", None],
                [{"id": "a", "n": 1}],
                {
                    1: 'the message\'s key does not parse: column n: "x" is not a valid int',
                    2: "the message's key does not parse: malformed JSON",
                    3: "the message's key is not valid UTF-8",
                    4: "the message's key does not parse: the message is empty",
                    5: "key kafka_key is null",
                },
            ),
            "avro": (
                {"key_format": kf.avro(registry=registry.url), "key_schema": "id string"},
                [avro(record, KEY, {"id": "a"}), avro(99, KEY, {"id": "a"}), b"\0\0", b"x"],
                [{"id": "a"}],
                {
                    1: "the message's key schema 99 is unknown to the registry",
                    2: "the message's key does not parse: it does not begin with a zero byte",
                    3: "the message's key does not parse: it does not begin with a zero byte",
                },
            ),
            "avro_long": (
                {"key_format": kf.avro(registry=registry.url), "key_schema": "bigint"},
                [avro(number, "long", 7), avro(record, KEY, {"id": "a"})],
                [7],
                {1: "key kafka_key is null"},
            ),
            "long": (
                {"key_format": "long"},
                [struct.pack(">q", -5), b"\0\0\0\1"],
                [-5],
                {1: "the message's key does not parse: 4 bytes, and a long has 8"},
            ),
            "int": ({"key_format": "int"}, [struct.pack(">i", 9)], [9], {}),
            "short": ({"key_format": "short"}, [struct.pack(">h", 3)], [3], {}),
            "double": ({"key_format": "double"}, [struct.pack(">d", 0.5)], [0.5], {}),
        }
        for name, (options, keys, _, _) in declared.items():
            topic = cluster.topic(name)
            source = kf.kafka(cluster.address, topic=topic, format="long", metadata=["key"], **options)
            app.stream(f"{name}_in", source).by("kafka_key").table(name, total="sum(value)")
            cluster.produce(topic, [{"key": key, "value": struct.pack(">q", 2)} for key in keys])
        with started(app, spark, tmp_path) as handle:
            for name, (_, _, found, reasons) in declared.items():
                rows = [(row["kafka_key"], row["total"]) for row in handle.table(name).rows()]
                assert rows == [(key, 2) for key in found], name
                rejected = {offset: reason for _, offset, reason in why(handle.rejected(name))}
                assert set(rejected) == set(reasons), (name, rejected)
                for offset, reason in reasons.items():
                    assert rejected[offset].startswith(reason), (name, rejected)


def test_a_tombstone_deletes_the_row_of_its_key_and_retracts_it_from_other_tables(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    def app() -> kf.App:
        made = kf.App("deletes")
        source = kf.kafka(
            cluster.address, topic=topic, metadata=["key"], key_format="text", tombstones="delete"
        )
        customers = made.stream("customers", source, schema="region string, credit bigint")
        rows = customers.by("kafka_key").latest().table("rows")
        rows.changes().by("region").table("regions", n="count(*)", credit="sum(credit)", most="max(credit)")
        return made

    def send(*messages: tuple[str | None, dict[str, Any] | str | None]) -> None:
        cluster.produce(topic, [{"key": key, "value": encoded(value)} for key, value in messages])

    def encoded(value: Any) -> Any:
        import json

        return value if value is None or isinstance(value, str) else json.dumps(value)

    topic = cluster.topic("customers", partitions=3)
    eu = {"region": "eu", "credit": 10}
    # Of one batch: a changed row, one that is there only for a while, a key deleted before it is known.
    send(("a", eu), ("b", {"region": "eu", "credit": 5}), ("b", {"region": "us", "credit": 7}))
    send(("c", eu), ("c", None), ("d", None), ("d", eu), (None, None), ("a", "{bad"))
    with started(app(), spark, tmp_path) as handle:
        rows = {r["kafka_key"]: (r["region"], r["credit"]) for r in handle.table("rows").rows()}
        assert rows == {"a": ("eu", 10), "b": ("us", 7), "d": ("eu", 10)}
        found = [(r["region"], r["n"], r["credit"], r["most"]) for r in handle.table("regions").rows()]
        assert found == [("eu", 2, 20, 10), ("us", 1, 7, 7)]
        reasons = {reason.split(":")[0] for _, _, reason in why(handle.rejected("rows"))}
        assert reasons == {"a tombstone without a key", "does not parse"}
        send(("a", None), ("b", {"region": "eu", "credit": 1}), ("unknown", None), ("d", None), ("d", None))
        handle.drain()
        rows = {r["kafka_key"]: (r["region"], r["credit"]) for r in handle.table("rows").rows()}
        assert rows == {"b": ("eu", 1)}
        found = [(r["region"], r["n"], r["credit"], r["most"]) for r in handle.table("regions").rows()]
        assert found == [("eu", 1, 1, 1)]
        assert len(handle.rejected("rows")) == 2, "what is not there can be deleted"
        crashed(handle)
    send(("a", eu), ("b", None))
    with started(app(), spark, tmp_path) as handle:
        assert [(r["kafka_key"], r["credit"]) for r in handle.table("rows").rows()] == [("a", 10)]
        assert [(r["region"], r["n"]) for r in handle.table("regions").rows()] == [("eu", 1)]
