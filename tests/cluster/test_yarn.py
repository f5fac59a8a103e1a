"""An app on YARN: a ResourceManager and a NodeManager on one host, with the home on HDFS, their default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyfold.engine.polling import wait_until
from keyfold.kernel.build import kernel_jar
from tests.cluster.conftest import SPARK
from tests.cluster.drivers import Drivers, below, come_to, ended, expected, keyfold, write
from tests.hadoop import Yarn

pytestmark = pytest.mark.jvm

APP = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import keyfold as kf


class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "count int")

    def handleInputRows(self, key, rows, timerValues):
        held = self.count.get()
        count = (held[0] if held else 0) + len(list(rows))
        self.count.update((count,))
        yield Row(region=key[0], n=count, _op="upsert")

    def close(self):
        pass


app = kf.App("shop")
source = kf.files({inbox!r}, maxFilesPerTrigger=1)
orders = app.stream("orders", source, schema="region string, amount double")
orders.by("region").table("totals", n="count(*)", revenue="sum(amount)", partitions=3)
orders.by("region").process("counted", Count, output="region string, n int, _op string", partitions=2)

if __name__ == "__main__":
    import json

    with app.start() as handle:
        handle.drain()
        for table in ("totals", "counted"):
            rows = [dict(row) for row in handle.table(table).rows()]
            shown = [{{name: row[name] for name in row if name[0] != "_"}} for row in rows]
            print(table, json.dumps(shown), flush=True)
"""


def counted(files: int) -> list[dict[str, object]]:
    return [{"region": row["region"], "n": files} for row in expected(files)]


def drivers(place: Path, yarn: Yarn, home: str) -> Drivers:
    settings = {
        # Nothing of Spark is sent to nodes that have it.
        "spark.yarn.jars": f"local:{SPARK / 'jars'}/*",
        "spark.executor.instances": "2",
        "spark.executor.memory": "500m",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    environment = {"HADOOP_CONF_DIR": str(yarn.conf), "KEYFOLD_STATE_MEMORY": "200m"}
    return Drivers(place, APP, home, settings, environment)


@pytest.mark.timeout(900)
def test_an_app_on_yarn_survives_the_kill_of_a_container(tmp_path: Path, yarn: Yarn) -> None:
    # The home is in the default file system, and the input is not.
    found = drivers(tmp_path, yarn, "hdfs:///client")
    write(tmp_path, range(12))
    process = found.start("run", keyfold("run", "app.py", "--drain", "--master", "yarn"))
    found.come_to(2, "run", process)
    below(yarn.node, "ExecutorBackend")[0].kill()
    ended(process)
    assert found.view("run", "totals") == expected(12)
    assert found.view("run", "counted") == counted(12)


@pytest.mark.timeout(900)
def test_a_driver_in_a_container_that_is_killed_is_started_again_by_yarn(tmp_path: Path, yarn: Yarn) -> None:
    found = drivers(tmp_path, yarn, "hdfs:///cluster")
    write(tmp_path, range(12))
    # The driver's variables, and its directory of local files in the container.
    container = {
        "KEYFOLD_HOME": found.home,
        "KEYFOLD_LOCAL": ".keyfold",
        "KEYFOLD_STATE_MEMORY": "200m",
        # The user's own cache is not known there. A wheel would have the kernel.
        "KEYFOLD_KERNEL_DIR": str(kernel_jar().parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    given = {
        **found.spark,
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in container.items()},
        "spark.driver.memory": "700m",
        # The driver's Python is in the container too.
        "spark.driver.memoryOverhead": "900m",
    }
    settings = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster"]
    process = found.start("submitted", [*submit, *settings, "app.py"])
    come_to(lambda: yarn.local.glob("usercache/*/appcache/*/container_*/.keyfold"), 3, process)
    (first,) = below(yarn.node, "ApplicationMaster")
    first.kill()
    ended(process)
    (said,) = (log for log in yarn.logs.glob("*/container_*/stdout") if "totals" in log.read_text())
    rows = dict(line.split(" ", 1) for line in said.read_text().splitlines() if line.startswith(("t", "c")))
    assert json.loads(rows["totals"]) == expected(12)
    assert json.loads(rows["counted"]) == counted(12)
    assert "_02_" in said.parent.name, "the second attempt"
    assert wait_until(lambda: not below(yarn.node, "ExecutorBackend"), 60)
