"""TLS, client certificates, PLAIN and SCRAM, for Spark's client and Python's; no secret in any file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.kafka import client, connector
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.kafka.producer import ExactlyOnce
from keyfold.errors import KeyfoldError, RunError
from keyfold.settings import load
from tests.kafka.certificates import write_certificates
from tests.kafka.cluster import FAST, Cluster

SECRET = "pl4nted-s3cret"
LOGIN = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("secure")
    write_certificates(found)
    return found


@pytest.fixture(scope="module")
def secured(place: Path) -> Iterator[Broker]:
    """A broker with a listener for client certificates, and one for logins; both with TLS."""
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place / "ca.pem"),
        "listener.name.certified.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.login.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
        "listener.name.login.plain.sasl.jaas.config": (
            f'{LOGIN}.plain.PlainLoginModule required user_me="{SECRET}";'
        ),
    }
    with Broker(
        place / "broker",
        load(),
        listeners={"CERTIFIED": "SSL", "LOGIN": "SASL_SSL"},
        properties=properties,
        users={"me": SECRET},
        java_options=FAST,
    ) as broker:
        cluster = Cluster(broker.address)
        cluster.create("orders")
        cluster.produce("orders", ["a", "b"])
        yield broker


def ways(place: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """The listener and the client's settings, by what they show."""
    trust = {"ssl.ca.location": str(place / "ca.pem")}
    login = {"security.protocol": "SASL_SSL", **trust, "sasl.username": "me", "sasl.password": SECRET}
    mine = {
        "ssl.certificate.location": str(place / "client.crt"),
        "ssl.key.location": str(place / "client.key"),
    }
    jaas = f'{LOGIN}.plain.PlainLoginModule required username="me" password="{SECRET}";'
    store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(place / "ca.pem")}
    return {
        "SCRAM": ("LOGIN", {**login, "sasl.mechanism": "SCRAM-SHA-256"}),
        "PLAIN": ("LOGIN", {**login, "sasl.mechanisms": "PLAIN"}),
        "a client's certificate": ("CERTIFIED", {"security.protocol": "SSL", **trust, **mine}),
        "Java's names": (
            "LOGIN",
            {"security.protocol": "SASL_SSL", **store, "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas},
        ),
    }


@pytest.mark.parametrize("way", ["SCRAM", "PLAIN", "a client's certificate", "Java's names"])
def test_both_clients_log_in(spark: Any, secured: Broker, place: Path, way: str) -> None:
    listener, settings = ways(place)[way]
    address = secured.address_of(listener)
    options = {f"kafka.{name}": value for name, value in settings.items()}
    source = kf.kafka(address, topic="orders", options=options)
    connector.load(spark, load())
    connector.use(spark)
    wanted = {"kafka.bootstrap.servers": address, "subscribe": "orders", **client.for_spark(source)}
    assert spark.read.format("kafka").options(**wanted).load().count() >= 2
    writer = ExactlyOnce("orders", client.for_python(source), lambda: False, f"login {way}")
    assert writer.ready(20) is None
    writer.write(1, lambda: [(b"k", b"c", [])])


def test_a_login_that_is_refused_is_an_error_without_the_password(secured: Broker, place: Path) -> None:
    listener, settings = ways(place)["SCRAM"]
    source = kf.kafka(secured.address_of(listener), topic="orders")
    with client.using({**settings, "sasl.password": f"{SECRET}-wrong"}):
        writer = ExactlyOnce("orders", client.for_python(source), lambda: False, "refused")
    with pytest.raises(RunError, match="refused the login") as error:
        writer.ready(20)
    assert SECRET not in str(error.value)


@pytest.mark.jvm
def test_a_start_with_a_wrong_password_fails_at_once_and_does_not_print_it(
    spark: Any, secured: Broker, place: Path, tmp_path: Path
) -> None:
    listener, settings = ways(place)["PLAIN"]
    app = kf.App("refused")
    source = kf.kafka(secured.address_of(listener), topic="orders", format="text", wait="10 minutes")
    app.stream("orders", source).by("value").table("totals", n="count(*)")
    wrong = {**settings, "sasl.password": f"{SECRET}-wrong"}
    with pytest.raises(RunError, match="the brokers refuse the credentials") as error:
        app.start(spark=spark, home=tmp_path, kafka=wrong)
    assert SECRET not in str(error.value)


@pytest.mark.jvm
def test_a_secret_is_in_no_file_and_no_output(
    spark: Any, secured: Broker, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "keyfold")
    listener, settings = ways(place)["SCRAM"]
    address = secured.address_of(listener)
    Cluster(secured.address).create("totals")
    app = kf.App("shop")
    # One half of the settings is the declaration's, the other half the run's.
    password = {"kafka.sasl.password": SECRET}
    rows = app.stream("orders", kf.kafka(address, topic="orders", format="text", options=password))
    table = rows.where("value = 'a'").by("value").table("totals", n="count(*)")
    table.to(kf.kafka(address, topic="totals", options=password))
    common = {name: value for name, value in settings.items() if name != "sasl.password"}
    home = tmp_path / "home"
    outputs: list[object] = [app.describe(), repr(app.spec()), app.describe("json")]
    with app.start(spark=spark, home=home, kafka=common) as handle:
        handle.drain()
        outputs += [handle.status(), repr(handle)]
    [message] = Cluster(secured.address).consume("totals")
    assert json.loads(message.value())["n"] == 1
    with pytest.raises(KeyfoldError, match=r"refused? the (login|credentials)") as refused:
        app.start(spark=spark, home=home, kafka={**common, "sasl.username": "nobody"})
    outputs += [refused.value, caplog.text, load(kafka=settings)]
    assert [text for text in map(str, outputs) if SECRET in text] == []
    files = [file for directory in (home, Path(session_home(spark))) for file in directory.rglob("*")]
    assert any(file.name == "app.json" for file in files)
    assert [f for f in files if f.is_file() and SECRET.encode() in f.read_bytes()] == []


def session_home(spark: Any) -> str:
    """Where the session's logs are."""
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    return str(Path(options.split("log4j2.configurationFile=file://")[1].split()[0]).parent)
