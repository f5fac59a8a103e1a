"""A processor in Python that keeps a total: what `process` costs, by how many keys a batch has."""

from __future__ import annotations

import sys
from typing import Any

import keyfold as kf
from bench import data
from bench.engines import SCHEMA, drained
from bench.pairs import steady

ROWS, BATCH = 600_000, 300_000


def measure(spark: Any) -> dict[str, dict[str, Any]]:
    """The second batch, since the first one starts Python."""
    found: dict[str, dict[str, Any]] = {}
    for keys in (1_000, 100_000):
        app = kf.App("bench")
        files = kf.files(
            str(data.events(keys, ROWS, BATCH)), format="parquet", maxFilesPerTrigger=data.FILES_PER_BATCH
        )
        stream = app.stream("events", files, schema=SCHEMA)
        stream.by("key").process("totals", _processor, output="key string, total double")
        rate = drained(spark, app, steady, views="none")[0].rates[0]
        print(f"process, {keys:,} keys: {rate / 1000:,.0f}k", file=sys.stderr, flush=True)
        found[f"process, {keys:,} keys"] = {"events/s": round(rate), "ratio": 1.0}
    return found


def _processor() -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Total(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "total double")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            held = self.total.get()
            total = (held[0] if held else 0.0) + sum(row.amount for row in rows)
            self.total.update((total,))
            yield Row(key=key[0], total=total)

        def close(self) -> None:
            pass

    return Total()
