"""An app on a Spark cluster: a standalone master and two workers on one host, in directories of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.conftest import SPARK, Cluster
from tests.cluster.drivers import Drivers, ended, expected, keyfold, kill, write

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf
from keyfold.errors import HomeUnusable

app = kf.App("shop")
source = kf.files({inbox!r}, maxFilesPerTrigger=1)
orders = app.stream("orders", source, schema="region string, amount double")
totals = orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
totals.changes().by(all="1").table("regions", n="count(*)", partitions=2)

if __name__ == "__main__":
    from keyfold.engine import cluster, session

    with app.start() as handle:
        print("overhead", handle.spark.conf.get("spark.executor.memoryOverhead"))
        handle.drain()
        try:
            # Every process has a directory of its own under this name.
            kernel = session.kernel(handle.spark)
            cluster.require_shared_home(handle.spark, kernel, "file:/proc/self/cwd/home")
        except HomeUnusable as error:
            print(error)
"""


@pytest.mark.timeout(900)
def test_an_app_survives_the_kill_of_a_worker_and_of_its_driver_and_goes_on_elsewhere(
    tmp_path: Path, cluster: Cluster
) -> None:
    drivers = Drivers(tmp_path, APP, str(tmp_path / "home"))
    write(tmp_path, range(3))
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.master]
    given = ["--conf", "spark.executor.memoryOverhead=123m"]
    said = ended(drivers.start("submitted", [*submit, *given, "app.py"]))
    assert "overhead 123m" in said, "what was submitted is used"
    assert "the executors can't use the home" in said
    assert "can't read what the driver has written" in said
    plan = json.loads((tmp_path / "home" / "shop" / "app.json").read_text())
    assert plan["tables"]["totals"]["partitions"] >= 16, "fixed for a cluster, not for the first executor"
    assert drivers.view("submitted", "totals") == expected(3)

    write(tmp_path, range(3, 12))
    run = keyfold("run", "app.py", "--drain", "--master", cluster.master)
    process = drivers.start("killed", run)
    drivers.come_to(3, "killed", process)
    kill(cluster.workers[0])
    drivers.come_to(5, "killed", process)
    kill(process)

    ended(drivers.start("other", run))
    assert drivers.view("other", "totals") == expected(12)
    assert drivers.view("other", "regions") == [{"all": 1, "n": 3}]
