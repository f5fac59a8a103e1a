"""`kf.kafka`, as it is declared, checked and described."""

import json
import re
from datetime import date, datetime

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.validate.kafka import metadata_columns

SCHEMA = "id string, amount double, at timestamp"


def test_a_topic_is_read_as_json_from_the_earliest_message_unless_said_otherwise():
    made = kf.kafka("localhost:9092", topic="orders")
    assert (made.kind, made.format, made.kafka.servers) == ("kafka", "json", "localhost:9092")
    assert (made.kafka.topics, made.kafka.start) == (("orders",), "earliest")
    assert (made.kafka.on_data_loss, made.kafka.tombstones) == ("fail", "reject")
    assert (made.kafka.connection_wait_ms, made.kafka.answer_wait_ms) == (3_000, 60_000)


def test_several_servers_and_topics_are_a_list_or_text():
    made = kf.kafka(["a:9092", "b:9093"], topic=["x", "y"])
    assert made.kafka.servers == kf.kafka("a:9092, b:9093", topic="x").kafka.servers == "a:9092,b:9093"
    assert made.kafka.topics == ("x", "y")
    assert kf.kafka(iter(["a:1", "[::1]:2"]), topic="x").kafka.servers == "a:1,[::1]:2"


@pytest.mark.parametrize(
    "servers",
    [
        "",
        "localhost",
        "localhost:",
        ":9092",
        "http://x:9092",
        "a b:1",
        "a:0",
        "a:65536",
        3,
        None,
        ["a", 1],
        [],
    ],
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
    ("topic", "words"),
    [
        ("orders#1", "letters, digits"),
        ("x" * 250, "at most 249"),
        (".", "letters, digits"),
        ("orders-*", 'pattern="orders-.*"'),
        ("a, b", "topic=['a', 'b']"),
        (["a", "b", "a"], "topic 'a' is given twice"),
    ],
)
def test_a_topic_s_name_is_one_that_kafka_accepts(topic, words):
    with pytest.raises(BadOption, match=re.escape(words)):
        kf.kafka("localhost:9092", topic=topic)


@pytest.mark.parametrize(
    ("start", "stored"),
    [
        ("latest", "latest"),
        ("2026-05-01T02:00:00+02:00", "2026-05-01T00:00:00+00:00"),
        (datetime(2026, 5, 1), "2026-05-01T00:00:00+00:00"),
        (date(2026, 5, 1), "2026-05-01T00:00:00+00:00"),
        ({0: 5, 1: "latest"}, '{"t": {"0": 5, "1": -1}}'),
        ({"t": {2: "earliest"}}, '{"t": {"2": -2}}'),
    ],
)
def test_a_start_is_a_word_a_time_or_offsets(start, stored):
    assert kf.kafka("localhost:9092", topic="t", start=start).kafka.start == stored


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("erliest", "did you mean 'earliest'"),
        ("Latest", "did you mean 'latest'"),
        (5, '"latest", a time such as'),
        (20260501, "a time such as"),
        (None, "a time such as"),
        ({}, "by topic and partition"),
        ({"x": {0: 1}}, "topic 'x', which is not read"),
        ({0: -5}, "an offset in start"),
        ({0: True}, "an offset in start"),
        ({0: "latst"}, "did you mean 'latest'"),
        ({"t": {"0": 1}}, "a partition in start"),
    ],
)
def test_a_start_that_is_none_is_refused_with_what_to_do(start, words):
    with pytest.raises(BadOption, match="start") as refused:
        kf.kafka("localhost:9092", topic="t", start=start)
    assert words in str(refused.value)


def test_offsets_of_a_pattern_are_by_topic():
    made = kf.kafka("localhost:9092", pattern="t.*", start={"t1": {0: 5}})
    assert json.loads(made.kafka.start) == {"t1": {"0": 5}}
    with pytest.raises(BadOption, match="by topic and partition"):
        kf.kafka("localhost:9092", pattern="t.*", start={0: 5})


def test_metadata_adds_columns_which_may_be_the_event_time():
    app = kf.App("shop")
    source = kf.kafka("localhost:9092", topic="t", metadata=["key", "timestamp"], key_format="text")
    app.stream("orders", source, schema="id string", time="kafka_timestamp", late="1 minute")
    with pytest.raises(BadOption, match=r"time must be a column[^$]*metadata=\['timestamp'\]"):
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


def test_a_column_that_metadata_adds_is_one_of_the_stream_s():
    source = kf.kafka("localhost:9092", topic="t", metadata=["key", "timestamp"], key_format="text")
    messages = kf.App("a").stream("m", source, "id string", time="kafka_timestamp")
    assert messages.distinct("kafka_key", within="1 hour").by("id").table("t", n="count(*)")
    with pytest.raises(BadOption, match="'kafka_kee', which is not a column of stream 'm'"):
        messages.distinct("kafka_kee", within="1 hour")


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
    with pytest.raises(BadOption, match="written with"):
        app.stream("a", kf.kafka("a:1", topic="t", format=kf.avro()), schema=SCHEMA)
    looked_up = kf.kafka("a:1", topic="t", format=kf.avro(registry="http://localhost:8081/"))
    assert (looked_up.format, looked_up.kafka.registry) == ("avro", "http://localhost:8081")
    app.stream("a", looked_up, schema=SCHEMA)
    fixed = kf.kafka("a:1", topic="t", format=kf.avro(schema='"long"'), options={"minPartitions": 3})
    assert (fixed.format, fixed.options) == ("avro", (("avroSchema", '"long"'), ("minPartitions", "3")))
    app.stream("b", fixed, schema=SCHEMA)


def test_a_plan_has_the_parts_of_a_format_where_homes_on_disk_have_them():
    def stored(**given):
        app = kf.App("shop")
        app.stream("orders", kf.kafka("a:1", topic="t", **given), schema=SCHEMA).by("id").latest().table("x")
        source = json.loads(app.describe("json"))["streams"][0]["source"]
        return {name: source.get(name) for name in ("format", "registry", "descriptor", "message", "options")}

    parts = dict.fromkeys(("registry", "descriptor", "message", "options"))
    assert stored(format="json") == {"format": "json", **parts}
    looked_up = {"format": "avro", **parts, "registry": "http://r"}
    assert stored(format=kf.avro(registry="http://r")) == looked_up
    fixed = {"format": "avro", **parts, "options": {"avroSchema": '"long"'}}
    assert stored(format=kf.avro(schema='"long"')) == fixed
    typed = {"format": "protobuf", **parts, "descriptor": "d", "message": "m"}
    assert stored(format=kf.protobuf("d", "m")) == typed


def test_a_registry_is_given_with_the_values_or_with_the_keys():
    registry, plain = kf.avro(registry="http://r"), kf.avro()
    for value, key in ((registry, registry), (registry, "avro"), (plain, registry), ("avro", registry)):
        made = kf.kafka("a:1", topic="t", format=value, key_format=key).kafka
        assert (made.registry, made.key_format) == ("http://r", "avro")
    typed = kf.protobuf("shop.desc", "shop.Order")
    made = kf.kafka("a:1", topic="t", format=typed, key_format=registry)
    assert (made.format, made.kafka.registry, made.kafka.message) == ("protobuf", "http://r", "shop.Order")


@pytest.mark.parametrize(
    ("value", "key", "problem"),
    [
        (lambda: kf.avro(schema="{}"), lambda: kf.avro(registry="http://r"), "the same Schema Registry"),
        (
            lambda: kf.avro(registry="http://x"),
            lambda: kf.avro(registry="http://r"),
            "the same Schema Registry",
        ),
        (lambda: "json", lambda: kf.avro(schema='"long"'), "Avro keys need a Schema Registry"),
        (lambda: "json", lambda: kf.protobuf("d", "m"), "key_format must be one of"),
        (lambda: kf.avro(schema='"long"', registry="http://r"), lambda: None, "a schema or a registry"),
        (lambda: kf.avro(schema="long"), lambda: None, "not JSON"),
        (lambda: kf.avro(schema=3), lambda: None, "must be a string"),
        (lambda: kf.avro(registry="x:8081"), lambda: None, "URL"),
        (lambda: kf.avro(registry="http://"), lambda: None, "URL"),
        (lambda: kf.protobuf(3, "x.Y"), lambda: None, "descriptor of kf.protobuf"),
        (lambda: kf.protobuf("x.desc", None), lambda: None, "message of kf.protobuf"),
        (lambda: "protobuf", lambda: None, r"(?s)the type of its messages.*format=kf\.protobuf\(descriptor="),
    ],
)
def test_what_a_format_needs_is_checked(value, key, problem):
    with pytest.raises(BadOption, match=problem) as refused:
        kf.kafka("a:1", topic="t", format=value(), key_format=key())
    assert "test_kafka.py" in str(refused.value)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"registry": "http://me:geheim@r"}, 'format=kf.avro(registry="http://localhost:8081")'),
        ({"descriptor": "geheim"}, 'format=kf.protobuf(descriptor="shop.desc", message="shop.Order")'),
        ({"message": "geheim"}, 'format=kf.protobuf(descriptor="shop.desc", message="shop.Order")'),
        ({"formt": "geheim"}, "did you mean 'format'?"),
        ({"nothing_like_it": "geheim"}, "one of: servers, topic, "),
        ({"options": {"avroSchema": "geheim"}}, "format=kf.avro(schema=...)"),
    ],
)
def test_an_argument_that_it_does_not_have_is_answered_with_the_one_to_use(given, hint):
    with pytest.raises(BadOption, match=re.escape(hint)) as refused:
        kf.kafka("a:1", topic="t", format="avro", **given)
    assert "test_kafka.py" in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"format": "jsn"}, "did you mean 'json'"),
        ({"tombstones": "ignore"}, "reject, delete"),
        ({"key_schema": 3}, "key_schema"),
        ({"on_data_loss": "ignore"}, "fail, warn"),
        ({"metadata": ["keys"]}, "did you mean 'key'"),
        ({"metadata": 3}, "list"),
        ({"options": {"subscribe": "x"}}, "topic="),
        ({"options": 3}, "dict"),
        ({"options": {3: "x"}}, "must be a string"),
        ({"options": {"security.protocol": "SSL"}}, "'kafka.security.protocol'"),
        ({"options": {"maxOffsetPerTrigger": 5}}, "did you mean 'maxOffsetsPerTrigger'"),
        ({"options": {"maxOffsetsPerTrigger": "many"}}, "whole number above zero"),
        ({"options": {"minPartitions": 0}}, "whole number above zero"),
        ({"options": {"endingOffsets": "latest"}}, "unknown option"),
        ({"options": {"sep": ";"}}, "unknown option 'sep' of kf.kafka with format='json'"),
        ({"options": {"kafka.auto.offset.reset": "latest"}}, "start="),
        ({"key_format": "xml"}, "key_format"),
    ],
)
def test_other_arguments_are_checked_too(given, words):
    with pytest.raises(BadOption, match=words):
        kf.kafka("localhost:9092", topic="t", **given)


def test_options_are_those_of_the_client_the_source_and_the_format():
    given = {"sep": ";", "maxoffsetspertrigger": 5, "kafka.fetch.max.bytes": 9, "fetchOffset.numRetries": 2}
    assert dict(kf.kafka("a:1", topic="t", format="csv", options=given).options)["sep"] == ";"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka.secruity.protocol", "did you mean 'kafka.security.protocol'"),
        ("kafka.Security.Protocol", "did you mean 'kafka.security.protocol'"),
        ("Kafka.fetch.maxbytes", "did you mean 'kafka.fetch.max.bytes'"),
        ("kafka.kafka.security.protocol", "did you mean 'kafka.security.protocol'"),
        ("kafka.sasl.oauthbearer.clientid", "did you mean 'kafka.sasl.oauthbearer.client.id'"),
        ("kafka.listener.name.inside.xyz", "beside that class"),
    ],
)
def test_a_misspelt_setting_of_the_client_is_refused_with_the_near_name_and_without_its_value(name, words):
    with pytest.raises(BadOption, match=words) as refused:
        kf.kafka("a:1", topic="t", options={name: "geheim"})
    assert "test_kafka.py" in str(refused.value)
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {"kafka.interceptor.classes": "my.Interceptor", "kafka.my.setting": 1},
        {"kafka.metric.reporters": "org.apache.kafka.common.metrics.JmxReporter,my.Reporter", "kafka.x": 1},
        {"kafka.ssl.engine.factory.class": "my.Factory", "kafka.my.vault": "x"},
        {"kafka.config.providers": "vault", "kafka.config.providers.vault.param.url": "x"},
        {"kafka.sasl.oauthbearer.token.endpoint.url": "x", "kafka.sasl.oauthbearer.method": "oidc"},
        {"kafka.metrics.jmx.include": "x", "kafka.message.max.bytes": 9, "kafka.ssl.ca.location": "x"},
    ],
)
def test_settings_of_both_clients_and_those_that_a_class_of_the_user_reads_are_accepted(options):
    kf.kafka("a:1", topic="t", options=options)


def test_kafka_s_own_classes_read_no_other_settings():
    own = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    options = {"kafka.sasl.login.callback.handler.class": own, "kafka.secruity.protocol": "SSL"}
    with pytest.raises(BadOption, match=r"security\.protocol"):
        kf.kafka("a:1", topic="t", options=options)


def test_an_error_does_not_show_the_registry_s_password():
    with pytest.raises(BadOption) as refused:
        kf.avro(registry="ftp://me:geheim@host")
    assert "geheim" not in str(refused.value)
    assert "geheim" not in repr(kf.avro(registry="http://me:geheim@host"))


def test_metadata_may_have_the_names_of_its_columns():
    assert kf.kafka("a:1", topic="t", metadata=["kafka_key", "key", "offset"]).kafka.metadata == (
        "key",
        "offset",
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "binary"),
        ({"key_format": "text"}, "string"),
        ({"key_format": "long"}, "bigint"),
        (
            {"key_format": "json", "key_schema": "id string, n decimal(3,1)"},
            "struct<`id`: string, `n`: decimal(3,1)>",
        ),
        ({"key_format": kf.avro(registry="http://r"), "key_schema": "bigint"}, "bigint"),
    ],
)
def test_a_key_has_the_type_of_its_format(given, kind):
    source = kf.kafka("a:1", topic="t", metadata=["key"], **given)
    assert metadata_columns(source.kafka) == {"kafka_key": kind}
    kf.App("shop").stream("a", source, schema=SCHEMA)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"key_format": "json"}, "need a schema"),
        ({"key_format": "json", "key_schema": "string"}, "an object"),
        ({"key_format": "avro", "key_schema": "id string"}, "written with"),
        ({"key_format": "avro", "key_schema": "bigin"}, "key_schema has an unknown type 'bigin'"),
        ({"key_format": "text", "key_schema": "id string"}, "JSON or Avro"),
        ({"key_schema": "id string"}, "JSON or Avro"),
        ({"key_format": "json", "key_schema": "id, n int"}, "key_schema"),
    ],
)
def test_a_key_s_schema_is_checked(given, problem):
    with pytest.raises(BadOption, match=problem):
        kf.App("shop").stream("a", kf.kafka("a:1", topic="t", metadata=["key"], **given), schema=SCHEMA)


def test_the_format_of_keys_needs_their_column():
    with pytest.raises(BadOption, match=r"metadata=\['key'\]"):
        kf.App("shop").stream("a", kf.kafka("a:1", topic="t", key_format="text"), schema=SCHEMA)


def changelog(app, **options):
    source = kf.kafka("a:1", topic="t", metadata=["key"], tombstones="delete")
    return app.stream("rows", source, schema=SCHEMA, **options)


def test_tombstones_delete_the_latest_row_of_their_key():
    app = kf.App("shop")
    rows = changelog(app)
    latest = rows.by("kafka_key").latest().table("latest")
    rows.by(id="kafka_key").latest().table("named")
    latest.changes().where("amount > 1").by("id").table("totals", total="sum(amount)")


@pytest.mark.parametrize(
    "declare",
    [
        lambda rows: rows.by("id").latest().table("x"),
        lambda rows: rows.by("kafka_key").table("x", n="count(*)"),
        lambda rows: rows.by("kafka_key").top(2, by="amount").table("x"),
        lambda rows: rows.by("kafka_key").latest().table("x", ttl="1 day"),
        lambda rows: rows.by("kafka_key").latest().table("x", double="amount * 2"),
        lambda rows: rows.where("amount > 1").by("kafka_key").latest().table("x"),
        lambda rows: rows.distinct("id", within="1 day").by("kafka_key").latest().table("x"),
    ],
)
def test_other_tables_do_not_know_what_a_tombstone_deletes(declare):
    with pytest.raises(BadOption, match=r"(?s)nothing but its key.*rows\.changes\(\)"):
        declare(changelog(kf.App("shop")))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"time": "at"}, "event time"),
        ({"shared": True}, "log of its own"),
        ({"history": "1 day"}, "log of its own"),
    ],
)
def test_a_changelog_of_messages_goes_by_its_topic(options, problem):
    with pytest.raises(BadOption, match=problem):
        changelog(kf.App("shop"), **options)
    with pytest.raises(BadOption, match="as a column"):
        kf.App("shop").stream("rows", kf.kafka("a:1", topic="t", tombstones="delete"), schema=SCHEMA)


def test_a_topic_is_no_lookup():
    with pytest.raises(BadOption, match=r"(?s)bounded source.*kf.kafka"):
        kf.lookup("prices", kf.kafka("a:1", topic="t"), schema="sku string")


def test_a_topic_is_described_without_its_secrets():
    app = kf.App("shop")
    options = {"kafka.sasl.jaas.config": "password=hunter2", "maxOffsetsPerTrigger": 5}
    source = kf.kafka(
        "a:1",
        topic="t",
        format=kf.avro(registry="http://me:hunter2@r:8081"),
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
