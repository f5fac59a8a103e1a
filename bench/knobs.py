"""What the two checkpoint knobs cost: time between batches, and batches between snapshots."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA
from keyfold.engine import start
from keyfold.engine.handle import Handle
from keyfold.engine.session import own_session
from keyfold.settings import load

_STORE = "spark.sql.streaming.stateStore"


def batches(spark: Any, size: int) -> dict[str, float]:
    """Batches of one size at 10k keys: what a batch takes, and so how short `every` can usefully be."""
    place = data.events(10_000, size * 12, size)
    handle, home = _start(spark, place, None)
    try:
        handle.drain()
        taken = [
            p["durationMs"]["triggerExecution"] for q in handle.queries.values() for p in q.recentProgress
        ]
    finally:
        handle.stop()
        shutil.rmtree(home, ignore_errors=True)
    median = statistics.median(taken[2:])
    return {"batch ms": round(median), "events/s": round(size * 1000 / median)}


def snapshots(every: int) -> dict[str, float]:
    """A million keys, small batches: what snapshots cost while running, and what they save at a restart."""
    events = sorted(data.events(1_000_000, 4_000_000, 160_000).glob("*.parquet"))
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as work:
        place, home = Path(work) / "events", Path(work) / "home"
        place.mkdir()
        for file in events[: -data.FILES_PER_BATCH]:
            shutil.copy(file, place)
        running = _alone(place, home, every)
        for file in events[-data.FILES_PER_BATCH :]:
            shutil.copy(file, place)
        again = _alone(place, home, every)
    return {"events/s": running["events/s"], "first batch ms": again["first"], "loading ms": again["loading"]}


def _alone(place: Path, home: Path, every: int) -> dict[str, float]:
    """In a JVM of its own: in one that ran before, the state is still loaded."""
    command = [sys.executable, "-m", "bench.knobs", str(place), str(home), str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_alone(place: Path, home: str, every: int) -> dict[str, float]:
    # Snapshots are written by a task that runs once a minute: here more often, as in a longer run.
    spark = own_session(load(driver_memory="6g", home=home), {f"{_STORE}.maintenanceInterval": "2s"})
    handle, _ = _start(spark, place, every, home)
    handle.drain()
    reports = next(iter(handle.queries.values())).recentProgress
    handle.stop()
    rates = [p["numInputRows"] * 1000 / p["durationMs"]["triggerExecution"] for p in reports]
    loading = reports[0]["stateOperators"][0]["customMetrics"]["rocksdbLoadLatencyMs"]
    first = reports[0]["durationMs"]["triggerExecution"]
    return {"events/s": round(statistics.median(rates)), "first": first, "loading": loading}


def _start(spark: Any, place: Any, every: int | None, home: str | None = None) -> tuple[Handle, str]:
    app = kf.App("knobs", snapshot_every=every)
    files = kf.files(str(place), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH)
    app.stream("events", files, schema=SCHEMA, time="at").by("key").table("totals", AGGREGATES)
    home = home or tempfile.mkdtemp(prefix="keyfold-bench-")
    return start.start(app.spec(), spark=spark, home=home, settings={"views": "none"}), home


if __name__ == "__main__":
    print(json.dumps(run_alone(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
