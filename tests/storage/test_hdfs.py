"""Storage on HDFS: a NameNode and a DataNode on loopback."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import compiled_plan
from keyfold.engine import session
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.savepoint import restore
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from tests.storage.contract import StorageContract
from tests.storage.home_contract import FEW, HomeContract
from tests.storage.killed_driver import goes_on_as_if_it_had_not
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


def test_an_address_without_a_host_is_in_the_default_file_system(spark: Any, hdfs: str) -> None:
    spark.conf.set("fs.defaultFS", hdfs)
    try:
        storage = SparkStorage(session.kernel(spark), spark, "hdfs:///default")
        assert storage.put_new("f", b"x")
        assert storage.uri("f") == f"{hdfs}/default/f"
    finally:
        spark.conf.unset("fs.defaultFS")
    assert SparkStorage(session.kernel(spark), spark, f"{hdfs}/default").read("f") == b"x"


ROWS = [{"customer": "abc"[i % 3], "region": "xy"[i % 2], "amount": i} for i in range(6)]


def regions(*, new: bool) -> kf.App:
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows(ROWS), "customer string, region string, amount int")
    if new:
        orders.by("region").table("regions", n="count(*)", total="sum(amount)", was="totals")
    else:
        orders.by("customer", "region").table("totals", total="sum(amount)", n="count(*)")
    return app


def test_a_home_on_hdfs_is_migrated_and_goes_back(spark: Any, hdfs: str, tmp_path: Path) -> None:
    root = f"{hdfs}/migrated"
    where: dict[str, Any] = {"spark": spark, "home": root, "local": tmp_path / "local"}
    with regions(new=False).start(**where) as handle:
        handle.drain()
    home = AppHome(tmp_path / "local" / "shop", SparkStorage(session.kernel(spark), spark, f"{root}/shop"))
    plan = compiled_plan(spark, regions(new=True).spec(), home, tmp_path / "feeds")
    wanted = [Migrated(plan.tables[0], plan.changes[0])]
    entry = migrate(spark, home, wanted, None, lambda _: None)
    with regions(new=True).start(**where) as handle:
        handle.drain()
        found = [(row["region"], row["n"], row["total"]) for row in handle.table("regions").rows()]
    assert found == [("x", 3, 6), ("y", 3, 9)]
    restore.restore(home, entry["undo"], (), None, silent)
    with regions(new=False).start(**where) as handle:
        handle.drain()
        assert sum(row["total"] for row in handle.table("totals").rows()) == 15


@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_on_hdfs_goes_on_in_another_process_as_if_it_had_not(
    spark: Any, hdfs: str, tmp_path: Path
) -> None:
    # As where Hadoop's configuration names the HDFS as default: the input's paths are still of the disk.
    spark.conf.set("fs.defaultFS", hdfs)
    try:
        goes_on_as_if_it_had_not(spark, f"{hdfs}/killed", tmp_path, {"spark.hadoop.fs.defaultFS": hdfs})
    finally:
        spark.conf.unset("fs.defaultFS")
