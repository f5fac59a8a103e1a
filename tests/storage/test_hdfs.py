"""Storage on HDFS: a NameNode and a DataNode on loopback."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from tests.storage.contract import StorageContract
from tests.storage.home_contract import FEW, HomeContract
from tests.storage.lease_contract import LeaseContract

pytestmark = pytest.mark.jvm
roots = count()


class TestSparkStorageOnHdfs(StorageContract):
    @pytest.fixture
    def storage(self, spark: Any, hdfs: str) -> SparkStorage:
        return SparkStorage(session.kernel(spark), spark, f"{hdfs}/contract/{next(roots)}")


class TestHomeOnHdfs(HomeContract):
    points = FEW

    @pytest.fixture
    def root(self, hdfs: str) -> str:
        return f"{hdfs}/home/{next(roots)}"


class TestLeaseOnHdfs(LeaseContract):
    @pytest.fixture
    def home(self, spark: Any, hdfs: str, tmp_path: Path) -> AppHome:
        return AppHome(
            tmp_path / "shop", SparkStorage(session.kernel(spark), spark, f"{hdfs}/lease/{next(roots)}")
        )


def test_nothing_is_left_of_writes_that_lost(spark: Any, hdfs: str) -> None:
    storage = SparkStorage(session.kernel(spark), spark, f"{hdfs}/lost")
    storage.put_new("f", b"first")
    storage.put_new("f", b"second")
    place = spark._jvm.org.apache.hadoop.fs.Path(storage.uri())
    found = place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).listStatus(place)
    assert [status.getPath().getName() for status in found] == ["f"]


def test_an_hdfs_that_does_not_answer_is_an_error_with_its_address(spark: Any) -> None:
    spark.conf.set("ipc.client.connect.max.retries", "1")
    spark.conf.set("ipc.client.connect.retry.interval", "10")
    try:
        storage = SparkStorage(session.kernel(spark), spark, "hdfs://127.0.0.1:9/x")
        with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
            storage.list()
    finally:
        spark.conf.unset("ipc.client.connect.max.retries")
        spark.conf.unset("ipc.client.connect.retry.interval")
