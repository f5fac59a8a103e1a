"""What the two checkpoint knobs cost: time between batches, and batches between snapshots."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA
from keyfold.engine import run
from keyfold.engine.handle import Handle


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


def snapshots(spark: Any, every: int) -> dict[str, float]:
    """A million keys, small batches: what writing snapshots costs while running."""
    place = data.events(1_000_000, 3_000_000, 250_000)
    handle, home = _start(spark, place, every)
    try:
        handle.drain()
        query = next(iter(handle.queries.values()))
        rates = [p["numInputRows"] * 1000 / p["durationMs"]["triggerExecution"] for p in query.recentProgress]
        return {"events/s": round(statistics.median(rates[1:]))}
    finally:
        handle.stop()
        shutil.rmtree(home, ignore_errors=True)


def _start(spark: Any, place: Any, every: int | None) -> tuple[Handle, str]:
    app = kf.App("knobs", snapshot_every=every)
    files = kf.files(str(place), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH)
    app.stream("events", files, schema=SCHEMA, time="at").by("key").table("totals", AGGREGATES)
    home = tempfile.mkdtemp(prefix="keyfold-bench-")
    return run.start(app.spec(), spark=spark, home=home, settings={"views": "none"}), home
