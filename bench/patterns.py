"""A three-step pattern, against the same automaton in Python's transformWithState.

5M rows over 100k keys, of which about 1% match. Twice: with steps that skip rows between, where rows that
fit no step are left out before the shuffle, and with steps that must be the very next row, where every row
counts. The Python one takes rows as they come in a batch; keyfold holds them until the watermark has passed.
The last cases have one key alone, whose time must grow with its rows and no faster.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import SCHEMA, Result, drained, into_noop
from bench.pairs import Pair, steady

KEYS, ROWS, FEW_ROWS, BATCH = 100_000, 5_000_000, 1_000_000, 500_000
WITHIN = 600
# Of each step, so that about one key in a hundred has all three in order.
RELAXED, STRICT = 0.027, 0.06
LEAST = 150_000
LINEAR = 0.8


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
    return drained(spark, app, steady, views="none")[0]


def _python(spark: Any, place: Path, share: float, *, strict: bool) -> Result:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(data.FILES_PER_BATCH))
    found = (
        reader.parquet(str(place))
        .withWatermark("at", "0 seconds")
        .groupBy("key")
        .transformWithState(
            _processor(_bounds(share), strict),
            outputStructType="key string, started double, ended double",
            outputMode="Update",
            timeMode="None",
        )
    )
    return into_noop(spark, found, "update", steady)


def _processor(bounds: list[tuple[float, float]], strict: bool) -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Finds(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.partials = handle.getValueState("partials", "steps array<int>, starts array<double>")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            stored = self.partials.get()
            partials = list(zip(stored[0], stored[1], strict=True)) if stored else []
            found = []
            for row in sorted(rows, key=lambda r: r.at):
                amount, at = row.amount, row.at.timestamp()
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
            for start, end in found:
                yield Row(key=key[0], started=start, ended=end)

        def close(self) -> None:
            pass

    return Finds()


CASES = {"steps that skip rows": (RELAXED, False), "the very next row": (STRICT, True)}


def measure(spark: Any, rounds: int) -> dict[str, dict[str, Any]]:
    """Each case by both; then rows of one key."""
    found: dict[str, dict[str, Any]] = {}
    many, few = (data.events(KEYS, rows, BATCH) for rows in (ROWS, FEW_ROWS))
    for name, (share, strict) in CASES.items():
        by_hand = partial(_python, place=few, share=share, strict=strict)
        declared = partial(_keyfold, place=many, share=share, strict=strict)
        found |= Pair(by_hand, declared, 3.0, LEAST, slow=True).compared(spark, name, rounds)
    return found | _one_key(spark)


def _one_key(spark: Any) -> dict[str, dict[str, Any]]:
    """Batches of 10k, 100k and 200k rows of one key: where a batch's own cost is small, twice the rows take
    twice as long."""
    found = {}
    for size in (10_000, 100_000, 200_000):
        place = data.events(1, size * 6, size, step_us=100_000)
        rate = _keyfold(spark, place, STRICT, strict=True).rates[0]
        print(f"one key, {size:,} rows a batch: {rate / 1000:,.0f}k", file=sys.stderr, flush=True)
        found[f"one key, {size:,} rows a batch"] = {"events/s": round(rate), "ratio": 1.0}
    _, smaller, larger = found.values()
    larger["ratio"] = round(larger["events/s"] / smaller["events/s"], 2)
    larger["bar"] = f"{larger['ratio']:.2f}, {'reaches' if larger['ratio'] >= LINEAR else 'MISSES'} {LINEAR}"
    return found
