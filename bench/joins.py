"""Joins, enrichment and distinct, each against the same written by hand in PySpark.

All end in the same small fold per group, so that what is compared is the step before it. Rates are of batches
of 500k rows, without the first.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import SCHEMA, Result, drained, into_noop
from bench.pairs import Pair, rate, steady
from keyfold.engine import start

BATCH, STEP_US = 500_000, 1800
GROUP = "substr(key, -1)"
FOLD = {"n": "count(*)", "total": "sum(amount)"}
CUSTOMERS, ORDERS, FEW_ORDERS = 1_000_000, 5_000_000, 1_000_000


def events() -> Path:
    return data.events(200_000, 2_000_000, BATCH, step_us=STEP_US)


def _files(place: Path) -> Any:
    return kf.files(str(place), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH)


def _stream(spark: Any, place: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", str(data.FILES_PER_BATCH))
    return reader.parquet(str(place))


def _folded(frame: Any, group: str = GROUP) -> Any:
    from pyspark.sql import functions as F

    return frame.groupBy(F.expr(group).alias("g")).agg(*(F.expr(e).alias(n) for n, e in FOLD.items()))


def spark_join(spark: Any) -> Result:
    """A join of two streams by hand, with watermarks and a bound on time."""
    from pyspark.sql import functions as F

    left = _stream(spark, events()).withWatermark("at", "0 seconds")
    right = _stream(spark, events()).toDF("key2", "amount2", "at2").withWatermark("at2", "0 seconds")
    near = "key = key2 and at2 >= at - interval 1 minute and at2 <= at + interval 1 minute"
    return into_noop(spark, _folded(left.join(right, F.expr(near))), "update", steady)


def keyfold_join(spark: Any) -> Result:
    """The same join, declared."""
    app = kf.App("bench")
    left, right = (app.stream(n, _files(events()), schema=SCHEMA, time="at") for n in ("a", "b"))
    both = left.join(right.select("key", "at", amount2="amount"), on="key", within="1 minute")
    both.by(g=GROUP).table("totals", FOLD)
    return drained(spark, app, steady, views="none")[0]


def spark_distinct(spark: Any) -> Result:
    """Spark's own removal of repeats, whose span is the watermark's delay."""
    timed = _stream(spark, events()).withWatermark("at", "1 minute")
    return into_noop(spark, _folded(timed.dropDuplicatesWithinWatermark(["key"])), "update", steady)


def keyfold_distinct(spark: Any) -> Result:
    """The same span, as late rows and as a bound."""
    app = kf.App("bench")
    stream = app.stream("events", _files(events()), schema=SCHEMA, time="at", late="1 minute")
    stream.distinct("key", within="1 minute").by(g=GROUP).table("totals", FOLD)
    return drained(spark, app, steady, views="none")[0]


@contextmanager
def _directories() -> Iterator[tuple[Path, Path]]:
    """Where customers and orders come in; orders are put there once all customers are known."""
    home = Path(tempfile.mkdtemp(prefix="keyfold-bench-"))
    try:
        for name in ("customers", "orders", "home"):
            (home / name).mkdir()
        yield home / "customers", home / "orders"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _link(place: Path, to: Path) -> None:
    for file in sorted(place.glob("*.parquet")):
        os.link(file, to / file.name)


def customers() -> Path:
    """A row for each of the keys that orders have."""
    return data.each(CUSTOMERS, BATCH)


def keyfold_enrich(spark: Any) -> Result:
    """Orders that meet the newest row of their customer."""
    with _directories() as (known, orders):
        app = kf.App("bench")
        news = app.stream("news", _files(known), schema=SCHEMA)
        table = news.by("key").latest().table("customers", tier="cast(amount as int) % 10")
        app.stream("orders", _files(orders), schema=SCHEMA).enrich(table, on="key").by("tier").table(
            "totals", FOLD
        )
        settings = {"views": "none"}
        handle = start.start(app.spec(), spark=spark, home=known.parent / "home", settings=settings)
        try:
            _link(customers(), known)
            handle.drain()
            before = _batches(handle.queries["totals"])
            _link(data.events(CUSTOMERS, ORDERS, BATCH), orders)
            handle.drain()
            return _since(handle.queries["totals"], before)
        finally:
            handle.stop()


def python_enrich(spark: Any) -> Result:
    """The same in Python's transformWithState: both streams in one, a value per key."""
    from pyspark.sql import functions as F

    with _directories() as (known, orders):
        news = _stream(spark, known).select("key", "amount", F.lit(True).alias("known"))
        asked = _stream(spark, orders).select("key", "amount", F.lit(False).alias("known"))
        met = (
            news.union(asked)
            .groupBy("key")
            .transformWithState(
                _processor(), outputStructType="tier int, amount double", outputMode="Update", timeMode="None"
            )
        )
        checkpoint = str(known.parent / "checkpoint")
        writer = _folded(met, "tier").writeStream.format("noop").outputMode("update")
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            _link(customers(), known)
            query.processAllAvailable()
            before = _batches(query)
            _link(data.events(CUSTOMERS, FEW_ORDERS, BATCH), orders)
            query.processAllAvailable()
            return _since(query, before)
        finally:
            query.stop()


def _processor() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Meets(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.tier = handle.getValueState("tier", "tier int")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            # A value is asked for once per key, if at all.
            tier, asked = None, False
            for row in rows:
                if row.known:
                    tier, asked = int(row.amount) % 10, True
                    self.tier.update((tier,))
                else:
                    if not asked:
                        held, asked = self.tier.get(), True
                        tier = held[0] if held else None
                    yield Row(tier=tier, amount=row.amount)

        def close(self) -> None:
            pass

    return Meets()


def _batches(query: Any) -> int:
    return int(query.lastProgress["batchId"])


def _since(query: Any, batch: int) -> Result:
    """Events per second of the batches after one, without the first of them."""
    return rate([p for p in query.recentProgress if p["batchId"] > batch and p["numInputRows"]][1:])


SUITE = {
    "join within 1 minute": Pair(spark_join, keyfold_join, 0.95),
    "distinct within 1 minute": Pair(spark_distinct, keyfold_distinct, 0.7),
    "enrich, 1M customers": Pair(python_enrich, keyfold_enrich, 3.0, 200_000, slow=True),
}


def measure(spark: Any, rounds: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, pair in SUITE.items():
        found |= pair.compared(spark, name, rounds)
    return found
