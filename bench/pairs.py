"""One thing twice, by hand and declared with keyfold, in turns."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.engines import Result

Contestant = Callable[[Any], Result]


@dataclass(frozen=True)
class Pair:
    """Both, the ratio to reach, and the events per second.

    `slow`: by hand it takes minutes, and is run once, when keyfold has had its round for warming up.
    """

    by_hand: Contestant
    declared: Contestant
    bar: float
    least: int = 0
    slow: bool = False

    def compared(self, spark: Any, name: str, rounds: int) -> dict[str, dict[str, Any]]:
        """Medians of rounds that each of them begins by turns, after one for warming up."""
        theirs, own = self._medians(spark, name, rounds)
        reached = own >= self.bar * theirs and own >= self.least
        verdict = f"{own / theirs:.2f}, {'reaches' if reached else 'MISSES'} {self.bar}"
        bar = verdict + (f" and {self.least:,} events/s" if self.least else "")
        return {
            f"{name}: by hand": {"events/s": round(theirs), "ratio": 1.0},
            name: {"events/s": round(own), "ratio": round(own / theirs, 2), "bar": bar},
        }

    def _medians(self, spark: Any, name: str, rounds: int) -> tuple[float, float]:
        runs = {"by hand": self.by_hand, "declared": self.declared}
        rates: dict[str, list[float]] = {who: [] for who in runs}
        for number in range(rounds + 1):
            for who in ("by hand", "declared") if number % 2 else ("declared", "by hand"):
                if self.slow and who == "by hand" and number != 1:
                    continue
                found = runs[who](spark).rates[0]
                print(f"{name}, round {number}, {who}: {found / 1000:,.0f}k", file=sys.stderr, flush=True)
                rates[who] += [found] if number else []
        return statistics.median(rates["by hand"]), statistics.median(rates["declared"])


def steady(query: Any) -> Result:
    """Events per second from the second batch with rows to the last, with those between that have none."""
    batches = [p for p in query.recentProgress if p["durationMs"].get("addBatch")]
    first = next(i for i, p in enumerate(batches) if p["numInputRows"])
    return rate(batches[first + 1 :])


def rate(batches: list[Any]) -> Result:
    """Events per second of these batches together."""
    rows = sum(p["numInputRows"] for p in batches)
    return Result((rows * 1000 / sum(p["durationMs"]["triggerExecution"] for p in batches),))
