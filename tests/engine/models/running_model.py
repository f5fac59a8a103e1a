"""What tables should hold, by plain Python over all rows: the model that the property test compares with.

It imports nothing of keyfold, and nothing of Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One row. `u` is different for each."""

    k: str | None
    x: int | None
    y: float | None
    t: int | None
    u: int


@dataclass
class Model:
    """Rows per key in the order in which folds see them, and how many had no key.

    `kept` has only rows with a time, of keys that were seen within `lifetime` of the newest time of all rows.
    """

    lifetime: int
    rows: dict[str, list[Event]] = field(default_factory=dict)
    kept: dict[str, list[Event]] = field(default_factory=dict)
    newest: int = -1
    rejected: int = 0

    def add(self, batch: Sequence[Event]) -> None:
        """One batch: by event time, rows without one first, then as they arrived."""
        order = sorted(range(len(batch)), key=lambda n: (batch[n].t is not None, batch[n].t or 0, n))
        for event in (batch[n] for n in order):
            if event.k is None:
                self.rejected += 1
                continue
            self.rows.setdefault(event.k, []).append(event)
            if event.t is not None:
                self.kept.setdefault(event.k, []).append(event)
        self.newest = max([self.newest, *(event.t for event in batch if event.t is not None)])
        self.kept = {k: rows for k, rows in self.kept.items() if last(rows) + self.lifetime > self.newest}


def last(events: list[Event]) -> int:
    return max(event.t for event in events if event.t is not None)


def xs(events: list[Event]) -> list[int]:
    return [e.x for e in events if e.x is not None]


def ys(events: list[Event]) -> list[float]:
    return [e.y for e in events if e.y is not None]


def total(values: list[int]) -> int | None:
    return sum(values) if values else None


def mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def stddev(values: list[float]) -> float | None:
    """Of a sample, so of two values at least."""
    if len(values) < 2:
        return None
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (len(values) - 1))


def median(values: list[int]) -> float | None:
    """Between two values, half way."""
    if not values:
        return None
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return (low + high) / 2


def exact(events: list[Event]) -> dict[str, Any]:
    """Aggregates that have one right answer."""
    values = xs(events)
    return {
        "n": len(events),
        "known": len(values),
        "total": total(values),
        "least": min(values, default=None),
        "most": max(values, default=None),
        "middle": median(values),
        "different": len(set(values)),
        "seen": sorted(set(values)),
        "newest": max(events, key=lambda e: e.u).x,
        "positive": total([e.x for e in events if e.x is not None and e.y is not None and e.y > 0]),
    }


def chain(events: list[Event]) -> int:
    """A fold that depends on the order of its rows."""
    state = 0
    for event in events:
        state = (state * 31 + (7 if event.x is None else event.x + 100)) % 1_000_003
    return state


def may_be_median(value: int | None, values: list[int]) -> bool:
    """Whether a value is close enough to the middle by rank, as an approximation of the median may be."""
    if not values:
        return value is None
    if value not in values:
        return False
    slack = 1 + len(values) / 1000
    below, up_to = sum(v < value for v in values), sum(v <= value for v in values)
    return below - slack <= len(values) / 2 <= up_to + slack


def may_be_count(value: int, count: int) -> bool:
    """Whether a value may be an approximate count: within three of its relative standard deviations of 5%."""
    return abs(value - count) <= max(1, 0.15 * count)
