"""A three-step pattern, against the same automaton in Python's transformWithState.

5M rows over 100k keys, of which about 1% match. Twice: with steps that skip rows between, where rows that
fit no step are left out before the shuffle, and with steps that must be the very next row, where every row
counts. The Python one takes rows as they come in a batch; keyfold holds them until the watermark has passed.
A last case puts 10k rows of each batch into one key, whose time must grow with its rows and no faster.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import SCHEMA, Result, drained, into_noop

KEYS, ROWS, FEW_ROWS, BATCH = 100_000, 5_000_000, 1_000_000, 500_000
WITHIN = 600
# Of each step, so that about one key in a hundred has all three in order.
RELAXED, STRICT = 0.027, 0.06
LEAST = 150_000


def _bounds(share: float) -> list[tuple[float, float]]:
    """The amounts of each step."""
    return [(low, low + share * 100) for low in (0.0, 40.0, 80.0)]


def _steps(share: float, *, strict: bool) -> kf.Pattern:
    conditions = [f"amount >= {low} and amount < {high}" for low, high in _bounds(share)]
    one, two, three = (kf.step(f"s{n}", condition) for n, condition in enumerate(conditions))
    return one.then(two).then(three) if strict else one >> two >> three


def _keyfold(spark: Any, place: Path, share: float, *, strict: bool) -> Result:
    app = kf.App("bench")
    source = kf.files(str(place), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH)
    stream = app.stream("events", source, schema=SCHEMA, time="at")
    stream.by("key").pattern("found", _steps(share, strict=strict), within=f"{WITHIN} seconds")
    return drained(spark, app, _rates, views="none")[0]


def _python(spark: Any, place: Path, share: float, *, strict: bool) -> Result:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(data.FILES_PER_BATCH))
    found = (
        reader.parquet(str(place))
        .withWatermark("at", "0 seconds")
        .groupBy("key")
        .transformWithStateInPandas(
            _processor(_bounds(share), strict),
            outputStructType="key string, started double, ended double",
            outputMode="Update",
            timeMode="None",
        )
    )
    return into_noop(spark, found, "update", _rates)


def _rates(query: Any) -> Result:
    """Rows per second of all batches but the first."""
    batches = [p for p in query.recentProgress if p["durationMs"].get("addBatch")][1:]
    rows = sum(p["numInputRows"] for p in batches)
    return Result((rows * 1000 / sum(p["durationMs"]["triggerExecution"] for p in batches),))


def _processor(bounds: list[tuple[float, float]], strict: bool) -> Any:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Finds(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.partials = handle.getValueState("partials", "steps array<int>, starts array<double>")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            stored = self.partials.get()
            partials = list(zip(stored[0], stored[1], strict=True)) if stored else []
            found = []
            for batch in rows:
                batch = batch.sort_values("at")
                times = batch["at"].astype("int64").to_numpy() / 1e9
                for amount, at in zip(batch["amount"].to_numpy(), times, strict=True):
                    left = []
                    for step, start in partials:
                        if at - start >= WITHIN:
                            continue
                        if bounds[step][0] <= amount < bounds[step][1]:
                            if step == 2:
                                found.append((start, at))
                                left = []
                                break
                            left.append((step + 1, start))
                        elif not strict:
                            left.append((step, start))
                    else:
                        if bounds[0][0] <= amount < bounds[0][1]:
                            left.append((1, at))
                    partials = left
            if partials or stored:
                self.partials.update(([s for s, _ in partials], [t for _, t in partials]))
            if found:
                starts, ends = zip(*found, strict=True)
                yield pd.DataFrame({"key": key[0], "started": starts, "ended": ends})

        def close(self) -> None:
            pass

    return Finds()


CASES = {"steps that skip rows": (RELAXED, False), "the very next row": (STRICT, True)}


def measure(spark: Any, rounds: int, only: str = "") -> dict[str, dict[str, Any]]:
    """Each case by both in turn, one round for warming up; then rows of one key."""
    found: dict[str, dict[str, Any]] = {}
    many, few = (data.events(KEYS, rows, BATCH) for rows in (ROWS, FEW_ROWS))
    for name, (share, strict) in CASES.items():
        if only not in name:
            continue
        rates: dict[str, list[float]] = {"python": [], "keyfold": []}
        for number in range(rounds + 1):
            for who, run, place in (("python", _python, few), ("keyfold", _keyfold, many)):
                rate = run(spark, place, share, strict=strict).rates[0]
                print(f"{name}, round {number}, {who}: {rate / 1000:,.0f}k", file=sys.stderr, flush=True)
                rates[who] += [rate] if number else []
        theirs, own = (statistics.median(rates[who]) for who in ("python", "keyfold"))
        reached = own >= 3 * theirs and own >= LEAST
        verdict = f"{own / theirs:.2f}, {'reaches' if reached else 'MISSES'} 3.0 and {LEAST:,} rows/s"
        found[f"{name}: in Python"] = {"events/s": round(theirs), "ratio": 1.0}
        found[name] = {"events/s": round(own), "ratio": round(own / theirs, 2), "bar": verdict}
    found |= _one_key(spark)
    return found


def _one_key(spark: Any) -> dict[str, dict[str, Any]]:
    """Batches of 10k and of 100k rows of one key: ten times the rows should take about ten times as long."""
    found = {}
    for size in (10_000, 100_000):
        place = data.events(1, size * 6, size, step_us=100_000)
        rate = _keyfold(spark, place, STRICT, strict=False).rates[0]
        print(f"one key, {size:,} rows a batch: {rate / 1000:,.0f}k", file=sys.stderr, flush=True)
        found[f"one key, {size:,} rows a batch"] = {"events/s": round(rate), "ratio": 1.0}
    small, large = found.values()
    large["ratio"] = round(large["events/s"] / small["events/s"], 2)
    return found
