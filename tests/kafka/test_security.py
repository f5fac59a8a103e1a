"""TLS, client certificates, PLAIN, SCRAM, OAuth, for Spark's client and Python's; no secret in any file."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.jvm import jars
from keyfold.engine.kafka import client, connector
from keyfold.engine.kafka.broker import Broker
from keyfold.engine.kafka.producer import ExactlyOnce
from keyfold.errors import KeyfoldError, RunError
from keyfold.settings import load
from tests.kafka import token_server
from tests.kafka.certificates import write_certificates
from tests.kafka.cluster import FAST, Cluster

SECRET = "pl4nted-s3cret"
LOGIN = "org.apache.kafka.common.security"
OAUTH = f"{LOGIN}.oauthbearer"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("secure")
    write_certificates(found)
    return found


@pytest.fixture(scope="module")
def tokens() -> Iterator[token_server.TokenServer]:
    with token_server.serving("me", SECRET) as found:
        yield found


@pytest.fixture(scope="module")
def secured(place: Path, tokens: token_server.TokenServer) -> Iterator[Broker]:
    """A broker with a listener for client certificates, and one for logins; both with TLS."""
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place / "ca.pem"),
        "listener.name.certified.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.login.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        "listener.name.login.oauthbearer.sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": tokens.url,
        "sasl.oauthbearer.expected.audience": token_server.AUDIENCE,
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
        java_options=(*FAST, f"-D{ALLOWED}={tokens.url}"),
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


def oauth(place: Path, tokens: token_server.TokenServer, secret: str = SECRET) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place / "ca.pem"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": secret,
    }


APP = """
import keyfold as kf

app = kf.App("oauth")
orders = app.stream("orders", kf.kafka("{address}", topic="orders", format="text"))
totals = orders.where("value = 'a'").by("value").table("totals", n="count(*)")
totals.to(kf.kafka("{address}", topic="oauth-totals"))
"""


@pytest.mark.jvm
def test_an_app_logs_in_with_oauth_and_shows_no_secret(
    secured: Broker, place: Path, tokens: token_server.TokenServer, tmp_path: Path
) -> None:
    Cluster(secured.address).create("oauth-totals")
    app, home = tmp_path / "shop.py", tmp_path / "home"
    app.write_text(APP.format(address=secured.address_of("LOGIN")))
    on_class_path = jars.fetch("the connector", jars.read_list(connector.JARS), load())
    spark = {
        "spark.driver.extraClassPath": ":".join(map(str, on_class_path)),
        # Kafka's Java client asks for tokens only where a system property allows it.
        "spark.driver.extraJavaOptions": f"-D{ALLOWED}={tokens.url}",
    }
    outputs = []
    for secret in (SECRET, f"{SECRET}-wrong"):
        given = {"KEYFOLD_KAFKA": oauth(place, tokens, secret), "KEYFOLD_SPARK": spark}
        done = subprocess.run(
            [sys.executable, "-m", "keyfold", "run", str(app), "--home", str(home), "--drain"],
            env={**os.environ, **{name: json.dumps(value) for name, value in given.items()}},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        outputs += [done.stdout, done.stderr]
        assert done.returncode == (0 if secret == SECRET else 1), done.stderr
    [message] = Cluster(secured.address).consume("oauth-totals")
    assert json.loads(message.value())["n"] == 1
    assert tokens.issued >= 2, "both clients asked for tokens"
    assert [text for text in outputs if SECRET in text] == []
    files = [file for file in home.rglob("*") if file.is_file()]
    assert any(file.name == "app.json" for file in files)
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []


@pytest.mark.jvm
def test_oauth_with_two_copies_of_the_connector_is_refused_with_what_to_do(
    spark: Any, secured: Broker, place: Path, tokens: token_server.TokenServer, tmp_path: Path
) -> None:
    app = kf.App("twice")
    source = kf.kafka(secured.address_of("LOGIN"), topic="orders", format="text")
    app.stream("orders", source).by("value").table("totals", n="count(*)")
    with pytest.raises(RunError, match=r"(?s)OAuth needs.*extraClassPath.*spark-sql-kafka") as error:
        app.start(spark=spark, home=tmp_path, kafka=oauth(place, tokens))
    assert SECRET not in str(error.value)


def test_a_sink_s_login_that_oauth_refuses_is_an_error_without_the_secret(
    secured: Broker, place: Path, tokens: token_server.TokenServer
) -> None:
    source = kf.kafka(secured.address_of("LOGIN"), topic="orders")
    with client.using(oauth(place, tokens, f"{SECRET}-wrong")):
        writer = ExactlyOnce("orders", client.for_python(source), lambda: False, "refused by OAuth")
    with pytest.raises(RunError) as error:
        writer.ready(5)
    assert SECRET not in str(error.value)


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
