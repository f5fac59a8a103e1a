"""Runs keyfold's part of some suites in the checkout that is the current directory; `bench.trees` starts it.

Only what both checkouts have may be used: public names, and those of `bench` that have not changed.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path.cwd()))

import keyfold as kf
from bench import data, engines, joins, patterns, windows
from keyfold.engine.session import own_session
from keyfold.settings import load

SMALL_ROWS, SMALL_BATCHES = 200, 40


def _totals(spark: Any, keys: int, **options: Any) -> float:
    place = data.events(keys, 10_000_000, 2_000_000)
    return statistics.median(engines.keyfold(**options)(spark, place).rates)


def _pattern(spark: Any, case: str) -> float:
    share, strict = patterns.CASES[case]
    place = data.events(patterns.KEYS, patterns.ROWS, patterns.BATCH)
    return patterns._keyfold(spark, place, share, strict=strict).rates[0]


def _window(spark: Any, name: str) -> float:
    _, declare, emit, _ = windows.SUITE[name]
    return windows.keyfold_windows(spark, declare, emit).rates[0]


def _small(spark: Any, tables: int) -> float:
    """Batches per second from a new file to its rows in the last of so many tables, each of which reads the
    one before it."""
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as place:
        inbox = Path(place) / "in"
        inbox.mkdir()
        app = kf.App("small")
        stream = app.stream("rows", kf.files(str(inbox), format="json"), schema="key string, amount double")
        table = stream.by("key").table("t1", n="count(*)", total="sum(amount)")
        for number in range(2, tables + 1):
            table = table.changes().by("key").table(f"t{number}", n="sum(n)", total="sum(total)")
        handle = app.start(spark=spark, home=Path(place) / "home")
        try:
            return 1 / statistics.median([_pushed(handle, inbox, n) for n in range(SMALL_BATCHES)][10:])
        finally:
            handle.stop()


def _pushed(handle: Any, inbox: Path, number: int) -> float:
    lines = (f'{{"key": "{n % 50}", "amount": {n}}}\n' for n in range(SMALL_ROWS))
    (inbox / f".{number}").write_text("".join(lines))
    begun = time.monotonic()
    (inbox / f".{number}").rename(inbox / f"{number:05d}.json")
    handle.drain()
    return time.monotonic() - begun


CASES: Final[dict[str, Callable[[Any], float]]] = {
    "10k": lambda spark: _totals(spark, 10_000),
    "1m": lambda spark: _totals(spark, 1_000_000),
    "1m, views": lambda spark: _totals(spark, 1_000_000, views=True),
    "join": lambda spark: joins.keyfold_join(spark).rates[0],
    "distinct": lambda spark: joins.keyfold_distinct(spark).rates[0],
    "enrich": lambda spark: joins.keyfold_enrich(spark).rates[0],
    **{name: (lambda spark, name=name: _window(spark, name)) for name in windows.SUITE},
    **{f"pattern, {case}": (lambda spark, case=case: _pattern(spark, case)) for case in patterns.CASES},
    "a batch of 200 rows": lambda spark: _small(spark, 1),
    "a chain of three tables": lambda spark: _small(spark, 3),
}


def main() -> None:
    wanted = sys.argv[1:] or [*CASES]
    spark = own_session(load(driver_memory="6g"))
    # Once to warm up.
    print(json.dumps({name: [CASES[name](spark) for _ in range(3)][1:] for name in wanted}))
    spark.stop()


if __name__ == "__main__":
    main()
