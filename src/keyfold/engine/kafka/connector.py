"""Spark's connector for Kafka: its jars are added to the sessions of apps that read Kafka."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from keyfold.engine.jvm import jars
from keyfold.engine.kafka import client
from keyfold.errors import RunError
from keyfold.plan.nodes import AppSpec
from keyfold.settings import Settings

JARS: Final = Path(__file__).with_name("connector.jars")
_SOURCE: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def read(spec: AppSpec, replaced: Collection[str] = ()) -> bool:
    """Whether an app reads Kafka in a stream whose source is not replaced, as tests do."""
    return any(s.connector.kind == "kafka" and s.name not in replaced for s in spec.streams)


def load(spark: Any, settings: Settings) -> None:
    """Adds the connector to a session and its executors, unless it has one.

    Into a session that runs already: a JVM is started before it is known what the app reads, and the user's
    own session can get it in no other way.
    """
    if _is_loaded(spark):
        return
    for jar in jars.fetch("Kafka's connector", jars.read_list(JARS), settings):
        spark._jsparkSession.sessionState().resourceLoader().addJar(str(jar))


def use(spark: Any) -> None:
    """Lets this thread open Kafka's source: Spark looks for it in the thread's own class loader."""
    if not _is_loaded(spark):
        raise RunError(
            "this Spark session has no Kafka connector",
            hint="start the app with app.start(spark=...), which adds it, or add it to the session: "
            + ", ".join(jar.module for jar in jars.read_list(JARS)),
        )
    spark._jvm.java.lang.Thread.currentThread().setContextClassLoader(_class_loader(spark))


def check_login(spark: Any, spec: AppSpec, settings: Settings) -> None:
    """Refuses OAuth where Spark's driver and its tasks, in one JVM, have the connector twice.

    Java knows one factory of OAuth's logins for the whole JVM, that of the copy which came first; logins of
    the other one then fail, after a minute of retries in each task.
    """
    with client.using(settings.kafka):
        found = [client.for_spark(s.connector) for s in spec.streams if s.connector.kind == "kafka"]
    oauth = any(options.get("kafka.sasl.mechanism", "").upper() == "OAUTHBEARER" for options in found)
    if not oauth or not spark.sparkContext.master.startswith("local") or _is_shared(spark):
        return
    paths = ":".join(str(jar) for jar in jars.fetch("Kafka's connector", jars.read_list(JARS), settings))
    raise RunError(
        "OAuth needs Kafka's connector on the class path of Spark's driver, where the master is local",
        app=spec.name,
        given=f"master={spark.sparkContext.master}, sasl.mechanism=OAUTHBEARER",
        hint=f"""start with KEYFOLD_SPARK='{{"spark.driver.extraClassPath": "{paths}"}}'""",
    )


def _is_shared(spark: Any) -> bool:
    """Whether the connector is on the class path of the whole JVM."""
    try:
        spark._jvm.java.lang.ClassLoader.getSystemClassLoader().loadClass(_SOURCE)
    except Exception:
        return False
    return True


def condition(settings: Settings) -> str:
    """Whether Kafka's parts are here, in words. Only apps that read or write Kafka need them."""
    if find_spec("confluent_kafka") is None:
        return 'client not installed; for apps with Kafka: pip install "keyfold[kafka]"'
    found = jars.find_cached(jars.read_list(JARS), settings)
    if found is None:
        return "connector not fetched yet; the first start that reads Kafka does it"
    return f"{found[0].stem}, {found[0].parent}"


def _is_loaded(spark: Any) -> bool:
    try:
        _class_loader(spark).loadClass(_SOURCE)
    except Exception:
        return False
    return True


def _class_loader(spark: Any) -> Any:
    """That of the session, which alone sees jars that were added later."""
    return spark._jsparkSession.artifactManager().classloader()
