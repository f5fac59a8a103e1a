"""`kf.kafka`, as it is declared, checked and described."""

import json
from datetime import datetime

import pytest

import keyfold as kf
from keyfold.errors import BadOption

SCHEMA = "id string, amount double, at timestamp"


def test_a_topic_is_read_as_json_from_the_earliest_message_unless_said_otherwise():
    made = kf.kafka("localhost:9092", topic="orders")
    assert (made.kind, made.format, made.kafka.servers) == ("kafka", "json", "localhost:9092")
    assert (made.kafka.topics, made.kafka.start) == (("orders",), "earliest")
    assert (made.kafka.on_data_loss, made.kafka.tombstones) == ("fail", "reject")


def test_several_servers_and_topics_are_a_list_or_text():
    made = kf.kafka(["a:9092", "b:9093"], topic=["x", "y"])
    assert made.kafka.servers == kf.kafka("a:9092, b:9093", topic="x").kafka.servers == "a:9092,b:9093"
    assert made.kafka.topics == ("x", "y")


@pytest.mark.parametrize(
    "servers", ["", "localhost", "localhost:", ":9092", "http://x:9092", 3, None, ["a", 1]]
)
def test_servers_without_a_host_and_a_port_are_refused(servers):
    with pytest.raises(BadOption, match="server"):
        kf.kafka(servers, topic="t")


@pytest.mark.parametrize(
    "given", [{}, {"topic": "a", "pattern": "b"}, {"topic": ""}, {"topic": []}, {"topic": 3}, {"pattern": ""}]
)
def test_either_a_topic_or_a_pattern_is_needed(given):
    with pytest.raises(BadOption, match="topic"):
        kf.kafka("localhost:9092", **given)


@pytest.mark.parametrize(
    ("start", "stored"),
    [
        ("latest", "latest"),
        ("2026-05-01T02:00:00+02:00", "2026-05-01T00:00:00+00:00"),
        (datetime(2026, 5, 1), "2026-05-01T00:00:00+00:00"),
        ({0: 5, 1: "latest"}, '{"t": {"0": 5, "1": -1}}'),
        ({"t": {2: "earliest"}}, '{"t": {"2": -2}}'),
    ],
)
def test_a_start_is_a_word_a_time_or_offsets(start, stored):
    assert kf.kafka("localhost:9092", topic="t", start=start).kafka.start == stored


@pytest.mark.parametrize(
    "start", ["erliest", 5, None, {}, {"x": {0: 1}}, {0: -5}, {"t": {"0": 1}}, {0: True}]
)
def test_a_start_that_is_none_is_refused_with_examples(start):
    with pytest.raises(BadOption, match="start"):
        kf.kafka("localhost:9092", topic="t", start=start)


def test_offsets_of_a_pattern_are_by_topic():
    made = kf.kafka("localhost:9092", pattern="t.*", start={"t1": {0: 5}})
    assert json.loads(made.kafka.start) == {"t1": {"0": 5}}
    with pytest.raises(BadOption, match="by topic and partition"):
        kf.kafka("localhost:9092", pattern="t.*", start={0: 5})


def test_metadata_adds_columns_which_may_be_the_event_time():
    app = kf.App("shop")
    source = kf.kafka("localhost:9092", topic="t", metadata=["key", "timestamp"], key_format="text")
    app.stream("orders", source, schema="id string", time="kafka_timestamp", late="1 minute")
    with pytest.raises(BadOption, match="time must be a column"):
        app.stream(
            "others", kf.kafka("localhost:9092", topic="t"), schema="id string", time="kafka_timestamp"
        )
    assert kf.kafka("a:1", topic="t", metadata=True).kafka.metadata == (
        "key",
        "headers",
        "topic",
        "partition",
        "offset",
        "timestamp",
    )


def test_a_column_with_the_name_of_metadata_is_refused():
    source = kf.kafka("localhost:9092", topic="t", metadata=True)
    with pytest.raises(BadOption, match="kafka_offset"):
        kf.App("shop").stream("orders", source, schema="Kafka_offset long")


def test_text_and_raw_messages_have_one_column():
    app = kf.App("shop")
    assert app.stream("a", kf.kafka("a:1", topic="t", format="text")).node.schema == "value string"
    assert app.stream("b", kf.kafka("a:1", topic="t", format="raw"), schema="body binary").node.schema
    with pytest.raises(BadOption, match="one column"):
        app.stream("c", kf.kafka("a:1", topic="t", format="text"), schema="a string, b string")


def test_json_needs_a_schema_and_avro_also_the_schema_it_was_written_with():
    app = kf.App("shop")
    with pytest.raises(BadOption, match="needs a schema"):
        app.stream("a", kf.kafka("a:1", topic="t"))
    with pytest.raises(BadOption, match="written with"):
        app.stream("a", kf.kafka("a:1", topic="t", format="avro"), schema=SCHEMA)
    app.stream(
        "a", kf.kafka("a:1", topic="t", format="avro", registry="http://localhost:8081/"), schema=SCHEMA
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "jsn"}, "did you mean 'json'"),
        ({"registry": "http://x"}, "for format='avro'"),
        ({"registry": "x:8081", "format": "avro"}, "URL"),
        ({"tombstones": "delete"}, "yet"),
        ({"on_data_loss": "ignore"}, "fail, warn"),
        ({"metadata": ["keys"]}, "did you mean 'key'"),
        ({"metadata": 3}, "list"),
        ({"options": {"subscribe": "x"}}, "topic="),
        ({"options": 3}, "dict"),
        ({"key_format": "xml"}, "key_format"),
    ],
)
def test_other_arguments_are_checked_too(given, words):
    with pytest.raises(BadOption, match=words):
        kf.kafka("localhost:9092", topic="t", **given)


def test_what_can_not_be_read_yet_is_refused_with_the_reason():
    app = kf.App("shop")
    with pytest.raises(BadOption, match="protobuf"):
        app.stream("a", kf.kafka("a:1", topic="t", format="protobuf"), schema=SCHEMA)
    with pytest.raises(BadOption, match="text or as raw"):
        app.stream("a", kf.kafka("a:1", topic="t", key_format="avro"), schema=SCHEMA)


def test_a_topic_is_no_lookup():
    with pytest.raises(BadOption, match=r"(?s)bounded source.*kf.kafka"):
        kf.lookup("prices", kf.kafka("a:1", topic="t"), schema="sku string")


def test_a_topic_is_described_without_its_secrets():
    app = kf.App("shop")
    options = {"kafka.sasl.jaas.config": "password=hunter2", "maxOffsetsPerTrigger": 5}
    source = kf.kafka(
        "a:1",
        topic="t",
        format="avro",
        registry="http://me:hunter2@r:8081",
        metadata=["key"],
        options=options,
    )
    app.stream("orders", source, schema=SCHEMA).by("id").table("totals", n="count(*)")
    text, data = app.describe(), json.loads(app.describe("json"))["streams"][0]["source"]
    assert "kafka avro t at a:1" in text
    assert "maxOffsetsPerTrigger=5" in text
    assert (data["servers"], data["topics"], data["metadata"]) == ("a:1", ["t"], ["key"])
    for shown in (text, json.dumps(data), app.describe("mermaid"), repr(source), repr(app.spec())):
        assert "hunter2" not in shown
