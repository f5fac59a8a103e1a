"""What tables of a table's changes should hold, by plain Python over the rows that are there.

It imports nothing of keyfold, and nothing of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Item:
    """One row. `u` is different for each."""

    id: str
    g: str | None
    x: int | None
    t: int
    u: int


@dataclass
class Model:
    """The newest row of each id, by time and then by arrival; and all rows of ids that were seen of late."""

    lifetime: int
    newest: dict[str, Item] = field(default_factory=dict)
    recent: dict[str, list[Item]] = field(default_factory=dict)
    all: list[Item] = field(default_factory=list)
    clock: int = 0

    def add(self, batch: Sequence[Item]) -> None:
        """One batch."""
        for item in batch:
            held = self.newest.get(item.id)
            if held is None or item.t >= held.t:
                self.newest[item.id] = item
            self.recent.setdefault(item.id, []).append(item)
            self.all.append(item)
            self.clock = max(self.clock, item.t)
        self.recent = {
            id: items
            for id, items in self.recent.items()
            if max(i.t for i in items) + self.lifetime > self.clock
        }

    @property
    def shown(self) -> list[Item]:
        """The newest rows that have a group."""
        return [item for item in self.newest.values() if item.g is not None]


def grouped(items: Iterable[Any], by: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for item in items:
        found.setdefault(by(item), []).append(item)
    return found


def xs(items: Iterable[Item]) -> list[int]:
    return sorted(item.x for item in items if item.x is not None)


def total(values: Sequence[int]) -> int | None:
    return sum(values) if values else None


def mean(values: Sequence[int]) -> float | None:
    return float(Fraction(sum(values), len(values))) if values else None


def sums(items: list[Item]) -> tuple[Any, ...]:
    """How many, how many known, sum, mean, and the sum of those above zero."""
    values = xs(items)
    return len(items), len(values), total(values), mean(values), total([v for v in values if v > 0])


def extremes(items: list[Item]) -> tuple[Any, ...]:
    """Least, most, how many different, all of them, and the sum of the squares."""
    values = xs(items)
    return (
        min(values, default=None),
        max(values, default=None),
        len(set(values)),
        values,
        sum(v * v for v in values),
    )


def ranked(items: Iterable[Item], n: int) -> list[Item]:
    """The first ones: those of most x, nulls last, then by id; of equal ones by time and then by arrival."""
    return sorted(items, key=lambda i: (i.x is None, -(i.x or 0), i.id, i.t, i.u))[:n]
