"""How much memory the output of one large batch takes: 5M changes from four tasks, and a view of them.

In a process of its own, with a heap of 1 GB: what tasks sent to the driver, instead of writing it themselves,
would not fit.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA
from keyfold.engine import start
from keyfold.engine.session import own_session
from keyfold.engine.storage.processes import jvm_pid
from keyfold.settings import load

CHANGES, TASKS, HEAP, PYTHON_MB = 5_000_000, 4, "1g", 500


def measure(changes: int = CHANGES) -> dict[str, dict[str, Any]]:
    """The figures of the process; it fails if Java runs out of heap."""
    command = [sys.executable, "-m", "bench.output", str(changes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    peak = found["python peak MB"]
    found["bar"] = f"{'stays under' if peak < PYTHON_MB else 'EXCEEDS'} {PYTHON_MB} MB"
    print(f"output, {changes:,} changes: {found}", file=sys.stderr, flush=True)
    return {f"{changes:,} changes, {TASKS} tasks, heap {HEAP}": found}


def run(changes: int) -> dict[str, Any]:
    """Runs one batch with a change of so many keys, and follows it with a view."""
    place = data.each(changes, changes)
    settings = load(master=f"local[{TASKS}]", driver_memory=HEAP)
    spark = own_session(settings, {"spark.sql.shuffle.partitions": str(TASKS)})
    app = kf.App("output")
    stream = app.stream("events", kf.files(str(place), format="parquet"), schema=SCHEMA, time="at")
    stream.by("key").table("totals", AGGREGATES)
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as home:
        begun = time.monotonic()
        with start.start(app.spec(), spark=spark, home=Path(home)) as handle:
            handle.drain()
            seconds = time.monotonic() - begun
            batches = [m for m in handle.hooks["totals"].log.after(-1) if m.counts["change"]]
            assert [m.counts["change"] for m in batches] == [changes], "all in one batch"
            assert handle.store.count("totals") == changes
            java = psutil.Process(jvm_pid(spark.sparkContext._gateway)).memory_info().rss
            size = sum(part.bytes for part in batches[0].parts)
    spark.stop()
    return {
        "seconds": round(seconds, 1),
        "python peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "java MB": java >> 20,
        "parts": len(batches[0].parts),
        "parts MB": size >> 20,
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]))))
