"""Declarations of Kafka sinks and of a table's history in a topic."""

from __future__ import annotations

from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.kafka import client
from keyfold.errors import BadOption


def table(**options: Any) -> kf.Table:
    stream = kf.App("shop").stream("orders", kf.rows([]), "region string, amount double")
    return stream.by("region").table("totals", n="count(*)", **options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"pattern": "a.*"}, "a sink writes to one topic"),
        ({"topic": ["a", "b"]}, "a sink writes to one topic"),
        ({"topic": "a", "format": "csv"}, "a sink writes JSON"),
        ({"topic": "a", "start": "latest"}, "start is an argument of a source"),
        ({"topic": "a", "options": {"minPartitions": "3"}}, r"begin with kafka\."),
        ({"topic": "a", "delivery": "twice"}, "delivery"),
    ],
)
def test_what_a_sink_can_not_have_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadOption, match=problem):
        table().to(kf.kafka("localhost:9092", **options))


def test_a_sink_and_a_history_are_described_without_secrets() -> None:
    topic = kf.kafka(
        "localhost:9092",
        topic="totals",
        delivery="at_least_once",
        options={"kafka.sasl.username": "me", "kafka.sasl.password": "geheim"},
    )
    app = table(history=topic).to(topic).app
    for text in (app.describe(), str(app.spec())):
        assert "totals at localhost:9092" in text or "totals" in text
        assert "at_least_once" in text
        assert "geheim" not in text


def test_a_history_is_a_time_or_a_topic() -> None:
    with pytest.raises(BadOption, match="history must be a duration or a Kafka topic"):
        table(history=kf.files("x"))


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_login_is_translated_both_ways() -> None:
    given = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "me", "sasl.password": 'a"b\\c'}
    java = client.java(given)
    assert java["sasl.jaas.config"] == f'{SCRAM} required username="me" password="a\\"b\\\\c";'
    assert "sasl.password" not in java
    back = client.python(java)
    assert (back["sasl.username"], back["sasl.password"]) == ("me", 'a"b\\c')
    assert client.java({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required;"}) == {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{PLAIN} required;",
    }


def test_a_user_without_a_mechanism_is_refused() -> None:
    with pytest.raises(BadOption, match=r"needs a supported sasl\.mechanism") as error:
        client.java({"sasl.username": "me", "sasl.password": "geheim"})
    assert "geheim" not in str(error.value)


def test_an_oauth_client_is_translated_for_both_clients() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "geheim",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.oauthbearer.scope": "kafka",
    }
    java = client.java(given)
    assert 'clientId="app" clientSecret="geheim" scope="kafka"' in java["sasl.jaas.config"]
    assert java["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert java["sasl.oauthbearer.token.endpoint.url"] == "https://login.example/token"
    python = client.python(given)
    assert python["sasl.oauthbearer.method"] == "oidc"
    assert client.python(java) == python


def test_pem_files_become_text_for_java_and_java_s_stores_must_be_pem(tmp_path: Any) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----")
    java = client.java(
        {
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "cert"),
            "ssl.key.location": str(tmp_path / "key"),
        }
    )
    assert java["ssl.truststore.type"] == java["ssl.keystore.type"] == "PEM"
    assert java["ssl.truststore.certificates"] == "-----BEGIN ca-----"
    assert client.python(java)["ssl.key.pem"] == "-----BEGIN key-----"
    with pytest.raises(BadOption, match="PEM files"):
        client.python({"ssl.truststore.location": "trust.jks"})
    with pytest.raises(BadOption, match=r"ssl\.ca\.location can't be read"):
        client.java({"ssl.ca.location": str(tmp_path / "nowhere")})
