"""What a join of two streams gives, by brute force in plain Python: the model of the property tests.

It imports nothing of keyfold, and nothing of Spark. Times are whole seconds. All rows that were taken are
kept for good: what has come out is a function of them and of the watermark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.engine.models.enrich_model import Row

Pair = tuple[int | None, int | None]


@dataclass
class Join:
    """Rows of the right at most `before` older and `after` newer than the left's, with `v` above `floor`."""

    how: str
    before: int
    after: int
    late: tuple[int, int]
    together: bool = False
    """Whether both sides are of one stream, whose rows move the time of both."""
    floor: int | None = None
    """If given, the condition asks for more: the left's `v` above it, and another than the right's."""
    newest: list[int | None] = field(default_factory=lambda: [None, None])
    watermark: int | None = None
    sides: tuple[list[Row], list[Row]] = field(default_factory=lambda: ([], []))
    too_late: list[int] = field(default_factory=list)
    last: tuple[int | None, int | None] = (None, None)
    """The newest times of the last batch, if no batch without rows has followed it."""

    def push(self, left: Sequence[Row] = (), right: Sequence[Row] = ()) -> None:
        """One batch: rows below the watermark of the batches before are late."""
        for side, rows in enumerate((left, right)):
            for row in rows:
                late = self.watermark is not None and row.t < self.watermark
                self.too_late.append(row.u) if late else self.sides[side].append(row)
        both = [*left, *right]
        given, before = (both, both) if self.together else (left, right), self.watermark
        newest = [max((r.t for r in rows), default=None) for rows in given]
        for side, to in enumerate(newest):
            self.advance(side, to)
        self.last = (newest[0], newest[1]) if self.watermark == before else (None, None)

    def restart(self) -> None:
        """The watermark stays, but not what each side has seen: both must bring rows to move it again."""
        self.newest = [None, None]

    def crash(self) -> None:
        """As restart, and the last batch runs again."""
        self.newest = list(self.last)

    def advance(self, side: int, to: int | None) -> None:
        """The watermark is that of the side which is behind."""
        if to is None:
            return
        seen = self.newest[side]
        self.newest[side] = to if seen is None else max(seen, to)
        reached = [t - late for t, late in zip(self.newest, self.late, strict=True) if t is not None]
        if len(reached) == 2:
            self.watermark = max(min(reached), self.watermark or 0)

    def matches(self, left: Row, right: Row) -> bool:
        near = -self.before <= right.t - left.t <= self.after
        more = self.floor is None or (left.v > self.floor and left.v != right.v)
        return left.k is not None and left.k == right.k and near and more

    def pairs(self) -> Iterator[tuple[Row, Row]]:
        return ((a, b) for a in self.sides[0] for b in self.sides[1] if self.matches(a, b))

    def alone(self, side: int) -> Iterator[Row]:
        """Rows that have met none, and can meet none any more: the other side's are late by now."""
        met = {pair[side] for pair in self.pairs()}
        reach = (self.after, self.before)[side]
        for row in self.sides[side]:
            low = side == 0 and self.floor is not None and row.v <= self.floor
            never = low or row.k is None
            gone = self.watermark is not None and row.t + reach < self.watermark
            if row not in met and (gone or never):
                yield row

    def result(self) -> Counter[Pair]:
        """Rows that have come out, as numbers of the left's and the right's row."""
        if self.how == "left_semi":
            return Counter({(a.u, None): 1 for a, _ in self.pairs()})
        found: Counter[Pair] = Counter()
        if self.how != "left_anti":
            found.update((a.u, b.u) for a, b in self.pairs())
        if self.how in ("left", "full", "left_anti"):
            found.update(numbers(self.alone(0), None))
        if self.how in ("right", "full"):
            found.update((b, a) for a, b in numbers(self.alone(1), None))
        return found


def numbers(rows: Iterable[Row], other: int | None) -> Iterator[Pair]:
    return ((row.u, other) for row in rows)
