"""Windows against Spark's own operators: 2M events, 10k keys, an hour of event time, batches of 500k.

A run counts all batches but the first, those without rows that close windows included.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA, Result, drained, into_noop

KEYS, ROWS, BATCH, STEP_US = 10_000, 2_000_000, 500_000, 1800
# By name: Spark's group and output mode, if it has the operator, what keyfold declares, the ratio to reach.
Declared = Callable[[Any], Any]
SUITE: dict[str, tuple[tuple[str, str] | None, Declared, str, float]] = {
    "tumbling 1 min, changes": (
        ("window(at, '1 minute')", "update"), lambda by: by.tumbling("1 minute"), "changes", 1.0
    ),
    "sliding 10 min by 1 min, final": (
        ("window(at, '10 minutes', '1 minute')", "append"),
        lambda by: by.sliding("10 minutes", every="1 minute"), "final", 1.5,
    ),
    "sliding 60 min by 1 min, final": (
        ("window(at, '60 minutes', '1 minute')", "append"),
        lambda by: by.sliding("60 minutes", every="1 minute"), "final", 5.0,
    ),
    "sessions 30 s, changes": (
        ("session_window(at, '30 seconds')", "append"), lambda by: by.session("30 seconds"), "changes", 1.0
    ),
    "rolling 5 min": (None, lambda by: by.rolling("5 minutes"), "changes", 100_000),
    "last 100": (None, lambda by: by.last(100), "changes", 100_000),
}  # fmt: skip


def events() -> Path:
    return data.events(KEYS, ROWS, BATCH, step_us=STEP_US)


def spark_windows(spark: Any, group: str, mode: str) -> Result:
    """groupBy(window, key) into Spark's noop sink, with Spark's own handling of files."""
    from pyspark.sql import functions as F

    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(data.FILES_PER_BATCH))
    timed = frame.parquet(str(events())).withWatermark("at", "0 seconds")
    totals = timed.groupBy(F.expr(group), "key").agg(*(F.expr(e).alias(n) for n, e in AGGREGATES.items()))
    return into_noop(spark, totals, mode, _whole)


def keyfold_windows(spark: Any, declare: Declared, emit: str) -> Result:
    """keyfold without views, which the noop sink is the like of."""
    app = kf.App("bench")
    files = kf.files(str(events()), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH)
    keyed = declare(app.stream("events", files, schema=SCHEMA, time="at").by("key"))
    keyed.table("windows", AGGREGATES, **({} if emit == "changes" else {"emit": emit}))
    return drained(spark, app, _whole, views="none")[0]


def _whole(query: Any) -> Result:
    """Events per second from the second batch to the last; bytes that RocksDB had on disk at its largest."""
    batches = [p for p in query.recentProgress if p["durationMs"].get("addBatch")]
    counted = batches[1:]
    rows = sum(p["numInputRows"] for p in counted)
    seconds = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
    sizes = (p["stateOperators"][0]["customMetrics"]["rocksdbSstFileSize"] for p in batches)
    return Result((rows / seconds,), state_bytes=max(sizes))


def measure(spark: Any, rounds: int) -> dict[str, dict[str, Any]]:
    """Each kind in turn, keyfold and Spark first by turns, one round for warming up."""
    found: dict[str, dict[str, Any]] = {}
    for name, (theirs, declare, emit, bar) in SUITE.items():
        rates: dict[str, list[float]] = {"spark": [], "keyfold": []}
        for number in range(rounds + 1):
            for who in ("spark", "keyfold") if number % 2 else ("keyfold", "spark"):
                rate = _run(spark, who, theirs, declare, emit)
                if rate is None:
                    continue
                print(f"{name}, round {number}, {who}: {rate / 1000:,.0f}k", file=sys.stderr, flush=True)
                rates[who] += [rate] if number else []
        found |= _compared(name, {who: statistics.median(r) for who, r in rates.items() if r}, bar)
    return found | {"sliding 60 min by 1 min, bytes of state per key": state_bytes(spark)}


def _run(spark: Any, who: str, theirs: tuple[str, str] | None, declare: Declared, emit: str) -> float | None:
    if who == "keyfold":
        return keyfold_windows(spark, declare, emit).rates[0]
    return spark_windows(spark, *theirs).rates[0] if theirs else None


def _compared(name: str, medians: dict[str, float], bar: float) -> dict[str, dict[str, Any]]:
    own, theirs = medians["keyfold"], medians.get("spark")
    reached = round(own / theirs, 2) if theirs else round(own)
    verdict = (
        f"{reached:,} {'of Spark' if theirs else 'events/s'}, {'reaches' if reached >= bar else 'MISSES'}"
    )
    shown = {f"{name}: Spark": {"events/s": round(theirs), "ratio": 1.0}} if theirs else {}
    ratio = own / theirs if theirs else 1.0
    return shown | {name: {"events/s": round(own), "ratio": round(ratio, 2), "bar": f"{verdict} {bar:,}"}}


def state_bytes(spark: Any) -> dict[str, Any]:
    """What the state of sliding 60 min by 1 min weighs in RocksDB's files, at its largest.

    A snapshot with each batch writes everything to files, and compaction leaves nothing twice; it reaches
    Spark's own state alone, so that keyfold's may still count what was replaced.
    """
    theirs, declare, emit, _ = SUITE["sliding 60 min by 1 min, final"]
    assert theirs is not None
    store = "spark.sql.streaming.stateStore"
    settings = {f"{store}.rocksdb.compactOnCommit": "true", f"{store}.minDeltasForSnapshot": "1"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        spark_bytes = spark_windows(spark, *theirs).state_bytes // KEYS
        own = keyfold_windows(spark, declare, emit).state_bytes // KEYS
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    ratio = round(own / spark_bytes, 2)
    verdict = f"{own:,} to Spark's {spark_bytes:,}: {ratio}, {'reaches' if ratio <= 0.5 else 'MISSES'} 0.5"
    return {"events/s": 0, "ratio": ratio, "bar": verdict}
