"""Messages in Protobuf, written by Google's library for Python and decoded by the kernel."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

import keyfold as kf
from keyfold.errors import BadExpression, BadOption
from tests.kafka.cluster import Cluster
from tests.kafka.test_source import started, why

pytestmark = pytest.mark.jvm

F = descriptor_pb2.FieldDescriptorProto
SCHEMA = (
    "id string, amount double, count int, big decimal(20,0), at timestamp, kind string, tags array<string>,"
    " prices map<string,bigint>, place struct<city: string>, note string, wrapped string, body binary"
)


def files() -> descriptor_pb2.FileDescriptorSet:
    """shop.proto and what it imports, as protoc would write them."""
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    kinds = shop.enum_type.add(name="Kind")
    kinds.value.add(name="NEW", number=0)
    kinds.value.add(name="PAID", number=1)
    shop.message_type.add(name="Other").field.add(name="x", number=900, type=F.TYPE_INT32, label=1)
    order = shop.message_type.add(name="Order")
    place = order.nested_type.add(name="Place")
    place.field.add(name="city", number=1, type=F.TYPE_STRING, label=1)
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_INT64, label=1)

    def field(name: str, kind: int, named: str = "", repeated: bool = False, **more: Any) -> None:
        number = len(order.field) + 1
        made = order.field.add(name=name, number=number, type=kind, label=3 if repeated else 1, **more)  # type: ignore[arg-type]
        if named:
            made.type_name = named

    field("id", F.TYPE_STRING)
    field("amount", F.TYPE_DOUBLE)
    field("count", F.TYPE_SINT32)
    field("big", F.TYPE_UINT64)
    field("at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field("kind", F.TYPE_ENUM, ".shop.Kind")
    field("tags", F.TYPE_STRING, repeated=True)
    field("prices", F.TYPE_MESSAGE, ".shop.Order.PricesEntry", repeated=True)
    field("place", F.TYPE_MESSAGE, ".shop.Order.Place")
    order.oneof_decl.add(name="_note")
    field("note", F.TYPE_STRING, proto3_optional=True, oneof_index=0)
    field("wrapped", F.TYPE_MESSAGE, ".google.protobuf.StringValue")
    field("body", F.TYPE_BYTES)
    made = descriptor_pb2.FileDescriptorSet()
    # Not in the order of their imports.
    made.file.append(shop)
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(made.file.add())
    return made


def message_class(name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in reversed(files().file):
        pool.Add(file)  # type: ignore[no-untyped-call]
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def declared(
    cluster: Cluster, topic: str, place: Path, schema: str = SCHEMA, message: str = "shop.Order"
) -> kf.App:
    file = place / "shop.desc"
    file.write_bytes(files().SerializeToString())
    app = kf.App("protobuf")
    source = kf.kafka(
        cluster.address,
        topic=topic,
        format=kf.protobuf(str(file), message),
        metadata=["offset"],
    )
    app.stream("orders", source, schema=schema).by("kafka_offset").latest().table("rows")
    return app


def test_messages_become_rows_or_are_rejected_with_their_bytes(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    topic, order = cluster.topic("protobuf"), message_class("shop.Order")
    full = order(
        id="é",
        amount=0.5,
        count=-3,
        big=2**64 - 1,
        kind=1,
        tags=["a", "b"],
        note="",
        body=b"\xff",
        prices={"x": 7},
    )
    full.at.FromDatetime(datetime(2026, 5, 1, 0, 0, 0, 123456))
    full.place.city = "Rome"
    full.wrapped.value = "w"
    good = full.SerializeToString()
    other = message_class("shop.Other")(x=5).SerializeToString()
    confluent = b"\0\0\0\0\7"
    cluster.produce(
        topic,
        [
            good,
            b"",
            order(kind=9, id="x").SerializeToString(),
            confluent + b"\x02\x02" + good,
            good[:-1],
            other,
            "a text that is not a message",
            confluent + b"\0" + other,
            confluent + b"\x02",
            confluent[:3],
            b"\x0a\x02\xff\xfe",
            b"\xff" * 12,
            None,
        ],
    )
    with started(declared(cluster, topic, tmp_path), spark, tmp_path / "home") as handle:
        rows = {row["kafka_offset"]: row for row in handle.table("rows").rows()}
        expected = {
            "id": "é",
            "amount": 0.5,
            "count": -3,
            "big": Decimal(2**64 - 1),
            "at": datetime(2026, 5, 1, 0, 0, 0, 123456, UTC),
            "kind": "PAID",
            "tags": ["a", "b"],
            "prices": {"x": 7},
            "place": {"city": "Rome"},
            "note": "",
            "wrapped": "w",
            "body": b"\xff",
        }
        defaults = {
            "id": "", "amount": 0.0, "count": 0, "big": Decimal(0), "at": None, "kind": "NEW", "tags": [],
            "prices": {}, "place": None, "note": None, "wrapped": None, "body": b"",
        }  # fmt: skip
        for offset, row in ((0, expected), (1, defaults), (3, expected)):
            assert {name: rows[offset][name] for name in row} == row, offset
        assert rows[2]["kind"].startswith("UNKNOWN_ENUM_VALUE_Kind_9")
        assert set(rows) == {0, 1, 2, 3}
        reasons = {offset: reason for _, offset, reason in why(handle.rejected("rows"))}
        none = "does not parse: not a shop.Order: it has none of its fields"
        assert reasons[5] == none
        assert reasons[7] == "does not parse: it is a shop.Other, and not a shop.Order"
        assert reasons[8].startswith("does not parse: it ends within Confluent's header")
        assert reasons[9].startswith("does not parse: it ends within Confluent's header")
        assert reasons[12].startswith("a tombstone")
        assert all(reasons[n].startswith("does not parse: not a shop.Order") for n in (4, 6, 10, 11)), reasons
        raw = {row["offset"]: row["raw"] for row in handle.rejected("rows")}
        assert raw[5] == base64.b64encode(other).decode()
        assert raw[11] == base64.b64encode(b"\xff" * 12).decode()
        assert set(reasons) == set(range(4, 13))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schema": "id string, price double"}, "shop.Order has no field price; it has: id, amount"),
        ({"schema": "id bigint"}, "field shop.Order.id is string, which can't be read as bigint"),
        ({"schema": "tags string"}, "repeated string, which can't be read as string"),
        ({"schema": "place string"}, "shop.Order.Place, which can't be read as string"),
        ({"message": "shop.Ordr"}, "has no message shop.Ordr; it has: shop.Other, shop.Order"),
    ],
)
def test_what_a_message_does_not_have_is_refused_at_the_start(
    spark: Any, cluster: Cluster, tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    topic = cluster.topic("refused")
    with pytest.raises(BadExpression, match=problem):
        declared(cluster, topic, tmp_path, **options).start(spark=spark, home=tmp_path / "home")


def test_a_descriptor_set_must_be_there_and_whole(spark: Any, cluster: Cluster, tmp_path: Path) -> None:
    app = declared(cluster, cluster.topic("broken"), tmp_path)
    (tmp_path / "shop.desc").write_bytes(b"\x0a\x05hello")
    with pytest.raises(BadExpression, match="not a descriptor set that is whole"):
        app.start(spark=spark, home=tmp_path / "home")
    (tmp_path / "shop.desc").unlink()
    with pytest.raises(BadOption, match="can't be read: No such file"):
        app.start(spark=spark, home=tmp_path / "home")
