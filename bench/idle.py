"""What an app costs while no rows come: Java's share of a core, for eight tables that read one directory."""

from __future__ import annotations

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
from keyfold.engine.storage.processes import jvm_pid

TABLES, SECONDS = 8, 30


def measure(spark: Any) -> dict[str, dict[str, Any]]:
    """The same number of Spark's own queries, as often awake, are the opponent; fewer percent are better."""
    place = data.events(10_000, 20_000, 2_000)
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as home:
        own = _keyfold(spark, place, Path(home))
        other = _by_hand(spark, place, Path(home))
    found = {"spark": {"% of a core": other}, "keyfold": {"% of a core": own, "ratio": round(own / other, 2)}}
    print(f"idle, {TABLES} tables: {found}", file=sys.stderr, flush=True)
    return found


def _keyfold(spark: Any, place: Path, home: Path) -> float:
    app = kf.App("idle")
    stream = app.stream("events", kf.files(str(place), format="parquet"), schema=SCHEMA, time="at")
    for number in range(TABLES):
        stream.by("key").table(f"t{number}", AGGREGATES)
    with start.start(app.spec(), spark=spark, home=home, settings={"views": "none"}) as handle:
        handle.drain()
        return _share(spark)


def _by_hand(spark: Any, place: Path, home: Path) -> float:
    queries = []
    for number in range(TABLES):
        rows = spark.readStream.schema(SCHEMA).parquet(str(place)).groupBy("key").count()
        sink = rows.writeStream.outputMode("update").format("noop")
        queries.append(sink.option("checkpointLocation", str(home / f"by-hand-{number}")).start())
    try:
        for query in queries:
            query.processAllAvailable()
        return _share(spark)
    finally:
        for query in queries:
            query.stop()


def _share(spark: Any) -> float:
    java = psutil.Process(jvm_pid(spark.sparkContext._gateway))
    time.sleep(5)  # what batches leave behind for the background
    before, begun = sum(java.cpu_times()[:2]), time.monotonic()
    time.sleep(SECONDS)
    return round(100 * (sum(java.cpu_times()[:2]) - before) / (time.monotonic() - begun), 1)
