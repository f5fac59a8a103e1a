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
from keyfold.engine.polling import wait_until
from keyfold.engine.session import own_session
from keyfold.kernel import build
from keyfold.settings import load

KEYS, ROWS, BATCH = 10_000, 24_000_000, 2_000_000
# Each JVM compiles its code on the cores that it works on, and two executors do that twice: the first batches
# show how long that takes, the last ones what a running cluster folds.
STEADY: Final = 6
LEAST: Final = 0.8
_DEPLOY: Final = "org.apache.spark.deploy"
_REGISTERED: Final = re.compile(r"Registering worker (\S+)")


def measure(rounds: int) -> dict[str, dict[str, Any]]:
    """Events per second of both in their last batches, in turns, each in a driver of its own."""
    place = data.events(KEYS, ROWS, BATCH)
    rates: dict[str, list[float]] = {"local[2]": [], "two workers": []}
    with _cluster() as master:
        for number in range(rounds):
            masters = [("local[2]", "local[2]"), ("two workers", master)]
            for name, url in masters if number % 2 else reversed(masters):
                found = _alone(url, place)
                print(f"cluster, round {number}, {name}: {found:,.0f}/s", file=sys.stderr, flush=True)
                rates[name].append(found)
    local, workers = (statistics.median(found) for found in rates.values())
    ratio = workers / local
    bar = f"{ratio:.2f} of local[2], {'reaches' if ratio >= LEAST else 'MISSES'} {LEAST}"
    return {
        "local[2]": {"events/s": round(local), "ratio": 1.0},
        "two workers": {"events/s": round(workers), "ratio": round(ratio, 2), "bar": bar},
    }


def _alone(master: str, place: Path) -> float:
    command = [sys.executable, "-m", "bench.cluster", master, str(place)]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _run(master: str, place: Path) -> float:
    home = tempfile.mkdtemp(prefix="keyfold-bench-")
    memory = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "3g"}
    spark = own_session(load(master=master, driver_memory="3g", home=home), memory)
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
    print(json.dumps(_run(sys.argv[1], Path(sys.argv[2]))))
