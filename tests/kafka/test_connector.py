"""The connector's jars: fetched once, checked, found again without a network, and seen by Spark."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from py4j.java_gateway import get_field

from keyfold import kafka_names
from keyfold.engine.jvm import jars
from keyfold.engine.kafka import connector
from keyfold.errors import JarsMissing
from keyfold.settings import Settings, load
from tests.kafka.cluster import Cluster

# Nobody listens on this port: the network is as good as away.
NO_NETWORK = """<ivysettings><settings defaultResolver="r"/><resolvers>
<ibiblio name="r" m2compatible="true" root="http://127.0.0.1:9/"/></resolvers></ivysettings>"""


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a machine with an empty cache and no network."""
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(NO_NETWORK)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return load(kernel_dir=tmp_path / "cache", spark={jars.IVY_SETTINGS: str(settings)})


def test_cold_and_offline_says_what_to_fetch_and_where_to_put_it_which_then_works(offline: Settings) -> None:
    wanted = jars.read_list(connector.JARS)
    place = Path(str(offline.kernel_dir)) / "jars"
    with pytest.raises(JarsMissing) as error:
        jars.fetch("Kafka's connector", wanted, offline)
    for jar in wanted:
        assert jar.module in str(error.value)
    assert str(place) in str(error.value)
    assert list(place.iterdir()) == [], "nothing half-done is left"

    for file in jars.fetch("Kafka's connector", wanted, load()):
        shutil.copy(file, place)
    assert [file.parent for file in jars.fetch("Kafka's connector", wanted, offline)] == [place] * 4


def test_a_jar_whose_content_differs_is_not_used(offline: Settings) -> None:
    wanted = jars.read_list(connector.JARS)
    place = Path(str(offline.kernel_dir)) / "jars"
    place.mkdir(parents=True)
    for file in jars.fetch("Kafka's connector", wanted, load()):
        shutil.copy(file, place)
    with (place / wanted[0].file).open("ab") as file:
        file.write(b"!")
    assert jars.find_cached(wanted, offline) is None
    with pytest.raises(JarsMissing, match="could not be downloaded") as error:
        jars.fetch("Kafka's connector", wanted, offline)
    assert wanted[0].module in str(error.value)
    assert wanted[1].module not in str(error.value), "the others are fine"


@pytest.mark.jvm
def test_a_running_session_reads_kafka_once_the_connector_is_added_in_any_thread(
    spark: Any, cluster: Cluster
) -> None:
    topic = cluster.topic(partitions=2)
    cluster.produce(topic, ["a", "b", "c"])
    found: list[int] = []

    def read() -> None:
        connector.use(spark)
        options = {"kafka.bootstrap.servers": cluster.address, "subscribe": topic}
        found.append(spark.read.format("kafka").options(**options).load().count())

    connector.load(spark, load())
    read()
    other = Thread(target=read)
    other.start()
    other.join()
    assert found == [3, 3]


@pytest.mark.jvm
def test_the_known_names_of_java_s_client_are_those_that_it_defines(spark: Any) -> None:
    connector.load(spark, load())
    loader = connector._class_loader(spark)
    java, new = spark._jvm.java.lang, spark.sparkContext._gateway.new_array
    found: set[str] = set()
    classes: set[str] = set()
    for kind in ("consumer.Consumer", "producer.Producer", "admin.AdminClient"):
        config = java.Class.forName(f"org.apache.kafka.clients.{kind}Config", True, loader)
        definition = config.getMethod("configDef", new(java.Class, 0)).invoke(None, new(java.Object, 0))
        keys = dict(definition.configKeys())
        found |= keys.keys()
        classes |= {name for name, key in keys.items() if str(get_field(key, "type")) == "CLASS"}
    assert sorted(kafka_names.JAVA) == sorted(found)
    assert [name for name in classes if not kafka_names.loads_code(name, "my.Class")] == []
