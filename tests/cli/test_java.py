"""Java ends: killed, or out of memory, while an app starts, runs, drains and stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from keyfold.engine.polling import wait_until
from tests.cli.conftest import Cli, write
from tests.cli.test_run import ENVIRONMENT, Running, closed, keyfold

pytestmark = pytest.mark.jvm

APP = """
import os, signal, sys
import psutil
import keyfold as kf

def kill_java():
    [java] = [child for child in psutil.Process().children() if child.name() == "java"]
    os.kill(java.pid, signal.SIGKILL)

def deadly(df):
    if "deadly" in sys.argv:
        sys.argv.remove("deadly")
        kill_java()
    return df.withColumn("more", df.amount + 1)

app = kf.App("shop")
given = kf.rows([{"region": "eu", "amount": 1.0}])
orders = app.stream("orders", given, schema="region string, amount double")
orders.transform(deadly).by("region").table("totals", n="count(*)", more="sum(more)")
"""
SCRIPT = f"""
{APP}
import threading
from keyfold.errors import JavaEnded

def expect(step, do):
    try:
        do()
    except JavaEnded as error:
        print(step, str(error).splitlines()[:2], flush=True)

expect("start", app.start)

handle = app.start()
handle.drain()
print("drained", handle.table("totals").get("eu")["n"], flush=True)
kill_java()
expect("wait", lambda: handle.wait(30))
expect("drain", handle.drain)
print("status", [found["kind"] for found in handle.status()["failures"]], flush=True)
handle.stop()

handle = app.start()
kill_java()
expect("stop", handle.stop)
with app.start() as handle:
    handle.drain()
    print("again", handle.table("totals").get("eu")["n"], flush=True)
"""
KILLED = ["Java ended: killed by signal 9 (SIGKILL)", "  where: shop"]


def test_python_is_told_in_every_phase_that_java_ended_and_can_start_again(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", "deadly"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout.splitlines() == [
        f"start {KILLED}",
        "drained 1",
        f"wait {KILLED}",
        f"drain {KILLED}",
        "status ['JavaEnded']",
        f"stop {KILLED}",
        "again 1",
    ], done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


def test_a_run_whose_java_is_killed_says_so_and_status_says_failed(tmp_path: Path, cli: Cli) -> None:
    rated = 'import keyfold as kf\napp = kf.App("rated")\nrows = app.stream("rows", kf.rate(1000))\n'
    write(tmp_path / "rated.py", rated + 'rows.select(k="value % 9").by("k").table("totals", n="count(*)")\n')
    running = Running(tmp_path, "rated.py", "--json")
    try:
        commits = tmp_path / ".keyfold/rated/tables/totals/checkpoint/commits"
        assert wait_until(lambda: (commits / "1").exists() or running.process.poll() is not None, 120)
        [java] = [child for child in psutil.Process(running.process.pid).children() if child.name() == "java"]
        java.kill()
        ended = running.ended()
    finally:
        closed(running.process.stdout)
    assert ended.code == 1
    assert "Java ended: killed by signal 9 (SIGKILL)\n  where: rated\n" in ended.err
    # A busy machine is slow enough for a batch to be told of before Java is killed.
    told = [line for line in ended.err.splitlines() if not line.startswith("keyfold: totals: batch ")]
    assert len(told) == 6, ended.err
    assert ended.json["error"]["kind"] == "JavaEnded"

    [status] = cli("status", "--home", tmp_path / ".keyfold", "--json").json
    assert (status["state"], status["tables"]["totals"]["running"]) == ("failed", False)
    assert status["failures"][0]["text"].startswith("Java ended: killed by signal 9")


def test_java_that_runs_out_of_heap_says_so(tmp_path: Path) -> None:
    hungry = APP.replace('"sum(more)"', "\"max(size(split(repeat('a,', 300000000), ',')))\"")
    write(tmp_path / "hungry.py", hungry)
    done = keyfold(tmp_path, "run", "hungry.py", "--drain", "--set", "driver_memory=512m")
    assert done.code == 1
    assert "Java ended: it ran out of memory (java.lang.OutOfMemoryError: " in done.err
    assert "given: driver_memory=512m" in done.err
    assert len(done.err.splitlines()) == 6, done.err
