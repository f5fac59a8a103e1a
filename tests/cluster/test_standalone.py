"""An app on a Spark cluster: a standalone master and two workers on one host, in directories of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
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
orders = app.stream("orders", kf.files("in", maxFilesPerTrigger=1), schema="region string, amount double")
totals = orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
totals.changes().by(all="1").table("regions", n="count(*)")
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def spark_class(name: str, *arguments: str, log: Path, cwd: Path) -> subprocess.Popen[bytes]:
    jars = Path(pyspark.__file__).parent / "jars"
    command = [java(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", name, *arguments]
    cwd.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(jars.parent)}
    environment["SPARK_SCALA_VERSION"] = "2.13"
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=cwd, env=environment, stdout=out, stderr=out)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a cluster with two workers of one core."""
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
        yield url
    finally:
        for process in started:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in children:
                child.kill() if child.is_running() else None


def write(place: Path, number: int) -> None:
    rows = [{"region": region, "amount": number} for region in ("eu", "us", "asia")]
    (place / "in" / f"{number:02d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(place: Path, master: str, *more: str) -> subprocess.Popen[str]:
    options = ["--master", master, "--home", str(place / "home"), *more]
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "700m",
        "spark.ui.enabled": "false",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "keyfold", "run", "app.py", "--drain", *options],
        cwd=place,
        env={**os.environ, "KEYFOLD_SPARK": json.dumps(settings), "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def totals(place: Path) -> list[dict[str, object]]:
    command = [
        sys.executable,
        "-m",
        "keyfold",
        "rows",
        "shop.totals",
        "--home",
        str(place / "home"),
        "--json",
    ]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [{name: row[name] for name in ("region", "n", "revenue")} for row in found]


@pytest.mark.timeout(600)
def test_an_app_runs_on_two_workers_and_survives_the_kill_of_an_executor(tmp_path: Path, master: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "in").mkdir()
    for number in range(4):
        write(tmp_path, number)
    process = run(tmp_path, master)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    plan = json.loads((tmp_path / "home" / "shop" / "app.json").read_text())
    assert plan["tables"]["totals"]["partitions"] >= 16, "fixed for a cluster, not for the first executor"
    assert [row["n"] for row in totals(tmp_path)] == [4, 4, 4]

    for number in range(4, 12):
        write(tmp_path, number)
    process = run(tmp_path, master)
    log = tmp_path / "home" / "shop" / "tables" / "totals" / "log"
    assert wait_until(lambda: (log / "5.json").exists() or process.poll() is not None, 200)
    executors = [p for p in psutil.process_iter(["cmdline"]) if is_executor(p, master)]
    assert executors, "it runs on executors"
    executors[0].send_signal(signal.SIGKILL)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    sums = sum(range(12))
    assert totals(tmp_path) == [{"region": r, "n": 12, "revenue": sums} for r in ("asia", "eu", "us")]


def is_executor(process: psutil.Process, master: str) -> bool:
    line = " ".join(process.info["cmdline"] or ())
    return "CoarseGrainedExecutorBackend" in line and bool(re.search(r"--driver-url", line))
