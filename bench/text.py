"""Text that several tables read: whole runs over CSV and JSON, and small batches, with and without a log."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA, Result, into_noop
from keyfold.engine import start

Format = Literal["csv", "json"]
TABLES = (1, 3, 10)
# How many times as long as one table ten may take; of small batches, and what Spark's own aggregation takes.
MOST_OF_TEN, MOST_OF_SMALL, LEAST_OF_SPARK = 3.0, 1.0, {10_000: 1.3, 1_000_000: 1.2}
SMALL_ROWS, SMALL_BATCHES = 200, 20


def measure(spark: Any, rounds: int, rows: int) -> dict[str, dict[str, Any]]:
    """Medians of rounds, after one for warming up; contestants take turns."""
    found: dict[str, dict[str, Any]] = {}
    for format in ("csv", "json"):
        for keys, least in LEAST_OF_SPARK.items():
            counts = TABLES if keys == 10_000 else TABLES[:1]
            found |= _whole_runs(spark, format, keys, least, counts, rounds, rows)  # type: ignore[arg-type]
    return found | _small(spark, rounds)


def _whole_runs(
    spark: Any, format: Format, keys: int, least: float, counts: tuple[int, ...], rounds: int, rows: int
) -> dict[str, dict[str, Any]]:
    place = data.text(format, keys, rows, rows // 5)
    runs: dict[str, Callable[[], float]] = {"spark": lambda: _by_hand(spark, place, format)}
    for count in counts:
        runs[f"{count} tables"] = lambda count=count: _whole(spark, place, format, count)  # type: ignore[misc]
    seconds = turns(f"{format}, {keys:,} keys", runs, rounds)
    one = seconds["1 tables"]
    found = {}
    for name, taken in seconds.items():
        entry = {"events/s": round(rows / taken), "ratio": round(taken / one, 2)}
        if name == "1 tables":
            entry["bar"] = verdict(seconds["spark"] / one, least, at_least=True, of="spark")
        if name == "10 tables":
            entry["bar"] = verdict(taken / one, MOST_OF_TEN, at_least=False, of="the time of 1")
        found[f"{format}, {keys:,} keys: {name}"] = entry
    return found


def turns(what: str, runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Median seconds of each; another one begins each round."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        first = number % len(runs)
        for name in [*runs][first:] + [*runs][:first]:
            seconds = runs[name]()
            print(f"{what}, round {number}, {name}: {seconds:.2f} s", file=sys.stderr, flush=True)
            taken[name] += [seconds] if number else []
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def verdict(ratio: float, bar: float, *, at_least: bool, of: str) -> str:
    """The ratio, and whether it reaches the bar."""
    reached = ratio >= bar if at_least else ratio <= bar
    return f"{ratio:.2f} of {of}, {'reaches' if reached else 'MISSES'} {bar}"


def _by_hand(spark: Any, place: Path, format: Format) -> float:
    from pyspark.sql import functions as F

    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(data.FILES_PER_BATCH))
    frame = reader.option("header", "true").format(format).load(str(place))
    totals = frame.groupBy("key").agg(*(F.expr(e).alias(n) for n, e in AGGREGATES.items()))
    begun = time.monotonic()
    into_noop(spark, totals, "update", lambda _: Result(()))
    return time.monotonic() - begun


def _declared(source: Any, tables: int, shared: bool | None = None) -> kf.App:
    app = kf.App("bench")
    stream = app.stream("events", source, schema=SCHEMA, shared=shared)
    for number in range(tables):
        stream.by("key").table(f"totals{number}", AGGREGATES)
    return app


def _whole(spark: Any, place: Path, format: Format, tables: int) -> float:
    """Seconds from the start to the end of all input; several tables share the stream."""
    source = kf.files(str(place), format=format, maxFilesPerTrigger=data.FILES_PER_BATCH)
    home, begun = tempfile.mkdtemp(prefix="keyfold-bench-"), time.monotonic()
    handle = start.start(
        _declared(source, tables, shared=tables > 1).spec(),
        spark=spark,
        home=home,
        settings={"views": "none"},
    )
    try:
        handle.drain()
        return time.monotonic() - begun
    finally:
        handle.stop()
        shutil.rmtree(home, ignore_errors=True)


def _small(spark: Any, rounds: int) -> dict[str, dict[str, Any]]:
    runs = {name: (lambda s=s: _pushed(spark, s)) for name, s in (("direct", False), ("shared", True))}
    seconds = turns(f"3 tables, batches of {SMALL_ROWS} rows", runs, rounds)
    ratio = seconds["shared"] / seconds["direct"]
    bar = verdict(ratio, MOST_OF_SMALL, at_least=False, of="direct")
    return {
        f"3 tables, batches of {SMALL_ROWS} rows: {name}": {
            "events/s": round(SMALL_ROWS / taken),
            "ratio": round(taken / seconds["direct"], 2),
            **({"bar": bar} if name == "shared" else {}),
        }
        for name, taken in seconds.items()
    }


def _pushed(spark: Any, shared: bool) -> float:
    """The median time from a new file to its rows in three views."""
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as place:
        inbox = Path(place) / "in"
        inbox.mkdir()
        app = _declared(kf.files(str(inbox), format="json"), 3, shared)
        handle = start.start(app.spec(), spark=spark, home=Path(place) / "home", settings={})
        taken = []
        try:
            for number in range(SMALL_BATCHES):
                lines = (f'{{"key": "{n % 50}", "amount": {n}}}\n' for n in range(SMALL_ROWS))
                (inbox / f".{number}").write_text("".join(lines))
                begun = time.monotonic()
                (inbox / f".{number}").rename(inbox / f"{number:05d}.json")
                handle.drain()
                taken.append(time.monotonic() - begun)
        finally:
            handle.stop()
        return statistics.median(taken[5:])
