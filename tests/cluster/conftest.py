"""A standalone cluster, an HDFS and a YARN, all on loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from keyfold.engine.polling import wait_until
from keyfold.kernel.build import java, kernel_jar
from tests import hadoop
from tests.conftest import LONG
from tests.ports import free_port

# Five to seven JVMs each, for minutes.
collect_ignore = [] if LONG else ["test_standalone_on_hdfs.py", "test_yarn.py"]

SPARK = Path(pyspark.__file__).parent


def spark_class(name: str, *arguments: str, log: Path, cwd: Path) -> subprocess.Popen[bytes]:
    jars = SPARK / "jars"
    command = [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", name, *arguments]
    cwd.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(jars.parent)}
    environment["SPARK_SCALA_VERSION"] = "2.13"
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=cwd, env=environment, stdout=out, stderr=out)


@dataclass(frozen=True)
class Cluster:
    """The URL of a master, and its two workers of one core each."""

    master: str
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A standalone cluster, each process of which has a working directory of its own."""
    kernel_jar()
    port, log = free_port(), tmp_path / "master.log"
    where = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
    deploy = "org.apache.spark.deploy"
    started = [
        spark_class(f"{deploy}.master.Master", *where, "--port", str(port), log=log, cwd=tmp_path / "master")
    ]
    url = f"spark://127.0.0.1:{port}"
    for number in (1, 2):
        place = tmp_path / f"worker{number}"
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(place)]
        ui = ["--host", "127.0.0.1", "--webui-port", str(free_port())]
        started.append(
            spark_class(f"{deploy}.worker.Worker", *ui, *limits, url, log=tmp_path / "worker.log", cwd=place)
        )
    try:
        assert wait_until(lambda: log.read_text().count("Registering worker") == 2, 90), log.read_text()
        yield Cluster(url, started[1:])
    finally:
        for process in started:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in children:
                child.kill() if child.is_running() else None


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an HDFS."""
    with hadoop.hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="session")
def yarn(hdfs: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hadoop.Yarn]:
    """A YARN whose default file system is the HDFS."""
    kernel_jar()
    with hadoop.yarn(tmp_path_factory.mktemp("yarn"), hdfs) as found:
        yield found
