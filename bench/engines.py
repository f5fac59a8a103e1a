"""The contestants: each runs one app over a directory of events and says how fast its batches were."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keyfold as kf
from bench.data import FILES_PER_BATCH
from keyfold.engine import start

SCHEMA = "key string, amount double, at timestamp"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
AGGREGATES = {"n": "count(*)", "total": "sum(amount)", "mean": "avg(amount)"}


@dataclass(frozen=True)
class Result:
    """Events per second of each batch but the first, which warms up and fills the state."""

    rates: tuple[float, ...]
    state_bytes: int = 0


def spark_builtin(spark: Any, data: Path) -> Result:
    """groupBy(...).agg(...) in update mode, into Spark's noop sink, with Spark's own handling of files."""
    from pyspark.sql import functions as F

    frame = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(FILES_PER_BATCH)).parquet(str(data))
    )
    totals = frame.groupBy("key").agg(*(F.expr(e).alias(n) for n, e in AGGREGATES.items()))
    return into_noop(spark, totals, "update", _rates)


def into_noop(spark: Any, totals: Any, mode: str, measured: Callable[[Any], Result]) -> Result:
    """Runs a query of Spark's own to the end of its input, with Spark's own handling of files."""
    checkpoint = tempfile.mkdtemp(prefix="keyfold-bench-")
    ours = spark.conf.get(FILE_MANAGER)
    spark.conf.unset(FILE_MANAGER)
    query = (
        totals.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint).start()
    )
    try:
        query.processAllAvailable()
        return measured(query)
    finally:
        query.stop()
        spark.conf.set(FILE_MANAGER, ours)
        shutil.rmtree(checkpoint, ignore_errors=True)


def keyfold(*, views: bool = False, ttl: str | None = None, tables: int = 1) -> Callable[[Any, Path], Result]:
    """keyfold with so many tables of one stream; the slowest table counts."""

    def measure(spark: Any, data: Path) -> Result:
        app = kf.App("bench")
        files = kf.files(str(data), format="parquet", maxFilesPerTrigger=FILES_PER_BATCH)
        stream = app.stream("events", files, schema=SCHEMA, time="at")
        for number in range(tables):
            stream.by("key").table(f"totals{number}", AGGREGATES, ttl=ttl)
        results = drained(spark, app, _rates, views="sqlite" if views else "none")
        return min(results, key=lambda r: sum(r.rates))

    return measure


def drained(spark: Any, app: kf.App, measured: Callable[[Any], Result], **settings: str) -> list[Result]:
    """Runs an app to the end of its input; what was measured of each of its tables."""
    home = tempfile.mkdtemp(prefix="keyfold-bench-")
    handle = start.start(app.spec(), spark=spark, home=home, settings=settings)
    try:
        handle.drain()
        return [measured(query) for query in handle.queries.values()]
    finally:
        handle.stop()
        shutil.rmtree(home, ignore_errors=True)


def _rates(query: Any) -> Result:
    batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
    rates = [p["numInputRows"] * 1000 / p["durationMs"]["triggerExecution"] for p in batches]
    return Result(tuple(rates[1:]))
