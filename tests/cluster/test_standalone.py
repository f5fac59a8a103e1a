"""An app on a Spark cluster: a standalone master and two workers on one host, in directories of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest

from keyfold.engine.polling import wait_until
from keyfold.kernel.build import java, kernel_jar

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf

app = kf.App("shop")
source = kf.files({inbox!r}, maxFilesPerTrigger=1)
orders = app.stream("orders", source, schema="region string, amount double")
totals = orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
totals.changes().by(all="1").table("regions", n="count(*)", partitions=2)

if __name__ == "__main__":
    from keyfold.engine import cluster, session

    with app.start() as handle:
        handle.drain()
        try:
            # Every process has a directory of its own under this name.
            kernel = session.kernel(handle.spark)
            cluster.require_shared_home(handle.spark, kernel, "file:/proc/self/cwd/home")
        except kf.HomeUnusable as error:
            print(error)
"""
SPARK = Path(pyspark.__file__).parent
SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "700m", "spark.ui.enabled": "false"}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


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


def write(place: Path, numbers: range) -> None:
    (place / "in").mkdir(exist_ok=True)
    for number in numbers:
        rows = [{"region": region, "amount": number} for region in ("eu", "us", "asia")]
        (place / "in" / f"{number:02d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def driver(place: Path, name: str, command: list[str]) -> subprocess.Popen[str]:
    """Starts a driver in a working directory, with local files, of its own."""
    directory = place / name
    directory.mkdir()
    (directory / "app.py").write_text(APP.format(inbox=str(place / "in")))
    settings = {
        "KEYFOLD_HOME": str(place / "home"),
        "KEYFOLD_LOCAL": str(directory / "local"),
        "KEYFOLD_SPARK": json.dumps(SETTINGS),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.Popen(
        command,
        cwd=directory,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def keyfold(*words: str) -> list[str]:
    return [sys.executable, "-m", "keyfold", *words]


def view(place: Path, table: str) -> list[dict[str, object]]:
    """The rows of a view, in the local files of the last driver."""
    command = keyfold("rows", f"shop.{table}", "--home", str(place / "home"), "--json")
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [{name: row[name] for name in row if not name.startswith("_")} for row in found]


def expected(files: int) -> list[dict[str, object]]:
    return [{"region": r, "n": files, "revenue": float(sum(range(files)))} for r in ("asia", "eu", "us")]


def kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """kill -9, of a process and all that it started."""
    children = psutil.Process(process.pid).children(recursive=True)
    for one in (psutil.Process(process.pid), *children):
        one.send_signal(signal.SIGKILL)
    process.communicate()


def come_to(place: Path, batch: int, process: subprocess.Popen[str]) -> None:
    """Waits until a batch of `totals` is published."""
    manifest = place / "home" / "shop" / "tables" / "totals" / "log" / f"{batch}.json"
    assert wait_until(lambda: manifest.exists() or process.poll() is not None, 280)
    assert process.poll() is None, process.communicate()[0]


@pytest.mark.timeout(900)
def test_an_app_survives_the_kill_of_a_worker_and_of_its_driver_and_goes_on_elsewhere(
    tmp_path: Path, cluster: Cluster
) -> None:
    write(tmp_path, range(3))
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.master]
    process = driver(tmp_path, "submitted", [*submit, "app.py"])
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert "the executors can't use the home" in said
    assert "can't read what the driver has written" in said
    plan = json.loads((tmp_path / "home" / "shop" / "app.json").read_text())
    assert plan["tables"]["totals"]["partitions"] >= 16, "fixed for a cluster, not for the first executor"
    assert view(tmp_path, "totals") == expected(3)

    write(tmp_path, range(3, 12))
    process = driver(tmp_path, "killed", keyfold("run", "app.py", "--drain", "--master", cluster.master))
    come_to(tmp_path, 3, process)
    kill(cluster.workers[0])
    come_to(tmp_path, 5, process)
    kill(process)

    process = driver(tmp_path, "other", keyfold("run", "app.py", "--drain", "--master", cluster.master))
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert view(tmp_path, "totals") == expected(12)
    assert view(tmp_path, "regions") == [{"all": 1, "n": 3}]
