"""Two standalone workers of one core beside `local[2]`: what separate executors cost."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil

from bench import data, engines
from bench.text import verdict
from keyfold.engine.polling import wait_until
from keyfold.engine.session import own_session
from keyfold.kernel import build
from keyfold.settings import load

ROWS, BATCH = 24_000_000, 2_000_000
# Keys, and how many times the events are read: each JVM compiles its code on the cores that it works on, and
# two executors do that twice, so that short batches take a minute to reach their speed.
REPEATS: Final = {10_000: 5, 1_000_000: 1}
STEADY: Final = 6
LEAST: Final = 0.8
# On a cluster a table has more state partitions than on one machine, so that it can grow; the third
# contestant has as many as the first.
LOCAL, WORKERS, SAME_PARTITIONS = "local[2]", "two workers", "two workers, as many partitions"
LOCAL_PARTITIONS: Final = "2"
_DEPLOY: Final = "org.apache.spark.deploy"
_REGISTERED: Final = re.compile(r"Registering worker (\S+)")


def measure(rounds: int) -> dict[str, dict[str, Any]]:
    """Events per second of each contestant in its last batches, in turns, each in a driver of its own."""
    found: dict[str, dict[str, Any]] = {}
    with _cluster() as master:
        for keys, times in REPEATS.items():
            place = data.repeated(data.events(keys, ROWS, BATCH), times)
            for name, entry in _turns(f"{keys:,} keys", master, place, rounds).items():
                found[f"{keys:,} keys: {name}"] = entry
    return found


def _turns(what: str, master: str, place: Path, rounds: int) -> dict[str, dict[str, Any]]:
    contestants = {LOCAL: (LOCAL, ""), WORKERS: (master, ""), SAME_PARTITIONS: (master, LOCAL_PARTITIONS)}
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name in contestants if number % 2 else reversed(contestants):
            found = _alone(*contestants[name], place)
            print(f"{what}, round {number}, {name}: {found:,.0f}/s", file=sys.stderr, flush=True)
            rates[name].append(found)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {name: _entry(rate, rate / medians[LOCAL], name != LOCAL) for name, rate in medians.items()}


def _entry(rate: float, ratio: float, compared: bool) -> dict[str, Any]:
    bar = verdict(ratio, LEAST, at_least=True, of=LOCAL)
    return {"events/s": round(rate), "ratio": round(ratio, 2), **({"bar": bar} if compared else {})}


def _alone(master: str, partitions: str, place: Path) -> float:
    command = [sys.executable, "-m", "bench.cluster", master, partitions, str(place)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _run(master: str, partitions: str, place: Path) -> float:
    home = tempfile.mkdtemp(prefix="keyfold-bench-")
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "3g"}
    if partitions:
        settings["spark.sql.shuffle.partitions"] = partitions
    spark = own_session(load(master=master, driver_memory="3g", home=home), settings)
    try:
        rates = engines.keyfold()(spark, place).rates
        print("  ", *(f"{rate / 1000:,.0f}k/s" for rate in rates), file=sys.stderr, flush=True)
        return statistics.median(rates[-STEADY:])
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _cluster() -> Iterator[str]:
    """A master and two workers on loopback, in directories of their own."""
    build.kernel_jar()
    work = Path(tempfile.mkdtemp(prefix="keyfold-bench-"))
    port, log = _free_port(), work / "log"
    url = f"spark://127.0.0.1:{port}"
    started = [_process("master.Master", work / "master", log, "--port", str(port))]
    for number in (1, 2):
        place = work / f"worker{number}"
        limits = ("--cores", "1", "--memory", "4g", "--work-dir", str(place))
        started.append(_process("worker.Worker", place, work / f"log{number}", *limits, url))
    try:
        # On a busy machine a worker may register twice.
        if not wait_until(lambda: len(set(_REGISTERED.findall(log.read_text()))) == 2, 90):
            raise RuntimeError(log.read_text())
        yield url
    finally:
        for process in started:
            below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in below:
                child.kill() if child.is_running() else None
        shutil.rmtree(work, ignore_errors=True)


def _process(name: str, place: Path, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    place.mkdir()
    jars = build.spark_home() / "jars"
    where = ("--host", "127.0.0.1", "--webui-port", str(_free_port()))
    command = [build.java(), "-Xmx512m", "-cp", f"{jars}/*", f"{_DEPLOY}.{name}", *where, *arguments]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(jars.parent)}
    environment["SPARK_SCALA_VERSION"] = "2.13"
    with log.open("wb") as out:
        return subprocess.Popen(command, cwd=place, env=environment, stdout=out, stderr=out)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    print(json.dumps(_run(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
