"""A standalone cluster whose app has its home on HDFS: nothing of it is on a disk that machines share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster
from tests.cluster.drivers import Drivers, below, ended, expected, keyfold, kill, write
from tests.cluster.test_standalone import APP

pytestmark = pytest.mark.jvm


@pytest.mark.timeout(900)
def test_an_app_on_hdfs_survives_the_kill_of_an_executor_and_of_its_driver_and_goes_on_elsewhere(
    tmp_path: Path, cluster: Cluster, hdfs: str
) -> None:
    drivers = Drivers(tmp_path, APP, f"{hdfs}/standalone")
    write(tmp_path, range(12))
    run = keyfold("run", "app.py", "--drain", "--master", cluster.master)
    process = drivers.start("killed", run)
    drivers.come_to(2, "killed", process)
    (executor,) = below(cluster.workers[0], "ExecutorBackend")
    executor.kill()
    drivers.come_to(5, "killed", process)
    kill(process)

    ended(drivers.start("other", run))
    assert drivers.view("other", "totals") == expected(12)
    assert drivers.view("other", "regions") == [{"all": 1, "n": 3}]
