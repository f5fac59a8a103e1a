"""One Kafka broker for all tests here, started by the product's own code; and one Spark session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.kafka.broker import Broker
from keyfold.settings import load
from tests.kafka.cluster import FAST, Cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The broker of all tests: topics have names of their own."""
    with Broker(tmp_path_factory.mktemp("kafka"), load(), java_options=FAST) as broker:
        yield Cluster(broker.address)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session of all tests here."""
    home = Path(tempfile.mkdtemp(prefix="keyfold-kafka-"))
    found = session.own_session(load(master="local[2]", driver_memory="1g", home=home))
    yield found
    found.stop()
    shutil.rmtree(home, ignore_errors=True)
