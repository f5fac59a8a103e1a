"""What rows of a stream meet in a table, by brute force in plain Python: the model of the property tests.

It imports nothing of keyfold, and nothing of Spark. Times are whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Value = tuple[int, ...]
Fold = Callable[[Sequence["Row"]], Value]


@dataclass(frozen=True)
class Row:
    """One row of either stream; `u` is its number in the order of arrival."""

    k: str | None
    t: int
    v: int
    u: int


def newest(rows: Sequence[Row]) -> Value:
    """The newest by time, then by arrival."""
    return (max(rows, key=lambda r: (r.t, r.u)).v,)


def totals(rows: Sequence[Row]) -> Value:
    return len(rows), sum(r.v for r in rows)


@dataclass
class Table:
    """A table by key; keys are forgotten `ttl` after their newest row, once the watermark has come there."""

    fold: Fold
    late: int
    ttl: int | None = None
    rows: dict[str, list[Row]] = field(default_factory=dict)
    watermark: int | None = None

    def push(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.k is not None:
                self.rows.setdefault(row.k, []).append(row)
                self.advance(row.t)

    def advance(self, to: int) -> None:
        self.watermark = max(to - self.late, self.watermark or 0)
        for k, rows in list(self.rows.items()):
            if self.ttl is not None and max(r.t for r in rows) + self.ttl <= self.watermark:
                del self.rows[k]

    def values(self) -> dict[str, Value]:
        return {k: self.fold(rows) for k, rows in self.rows.items()}


@dataclass
class Arrival:
    """Rows that meet the table as it is when they come, or that wait for it, or follow it."""

    how: str
    late: int
    wait: int | None = None
    follow: bool = False
    keep: int | None = None
    values: dict[str, Value] = field(default_factory=dict)
    said: dict[int, Value | None] = field(default_factory=dict)
    waiting: list[Row] = field(default_factory=list)
    kept: list[Row] = field(default_factory=list)
    watermark: int | None = None

    def _say(self, row: Row, value: Value | None) -> None:
        if value is None and self.how == "inner":
            self.said.pop(row.u, None)
        else:
            self.said[row.u] = value

    def change(self, values: dict[str, Value]) -> None:
        """The table has become this."""
        for k in {*values, *self.values}:
            value = values.get(k)
            for row in self.kept if value != self.values.get(k) else ():
                if row.k == k:
                    self._say(row, value)
            for row in [r for r in self.waiting if r.k == k and value is not None]:
                self._say(row, value)
                self.waiting.remove(row)
        self.values = values

    def push(self, rows: Sequence[Row]) -> None:
        """One batch of the stream."""
        for row in rows:
            value = None if row.k is None else self.values.get(row.k)
            waits = self.wait is not None and row.k is not None and not self._past(row.t + self.wait)
            if value is None and waits:
                self.waiting.append(row)
            else:
                self._say(row, value)
            if self.follow and row.k is not None:
                self.kept.append(row)
        self.advance(max(r.t for r in rows))

    def advance(self, to: int) -> None:
        self.watermark = max(to - self.late, self.watermark or 0)
        for row in [r for r in self.waiting if self._past(r.t + (self.wait or 0))]:
            self._say(row, None)
            self.waiting.remove(row)
        self.kept = [r for r in self.kept if self.keep is None or not self._past(r.t + self.keep)]

    def _past(self, t: int) -> bool:
        return self.watermark is not None and t <= self.watermark


@dataclass
class Event:
    """Rows that meet the table as it was at their time; those that wait are answered when that is settled.

    Two streams move the watermark, first that of the table: it is where the one that is behind has come to.
    """

    how: str
    fold: Fold
    late: tuple[int, int]
    wait: int | None = None
    ttl: int | None = None
    told: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    said: dict[int, Value | None] = field(default_factory=dict)
    too_late: list[int] = field(default_factory=list)
    newest: list[int | None] = field(default_factory=lambda: [None, None])
    watermark: int | None = None
    last: tuple[int | None, int | None] = (None, None)
    """The newest times of the last batch, if no batch without rows has followed it."""

    def push(self, side: int, rows: Sequence[Row]) -> None:
        """One batch: of the table's stream, or of that which meets it."""
        if side == 0:
            self.told += [r for r in rows if r.k is not None]
        for row in rows if side == 1 else ():
            if self.watermark is not None and row.t < self.watermark:
                self.too_late.append(row.u)
            elif row.k is None or self.wait is None:
                self._say(row)
            else:
                self.waiting.append(row)
        self.advance(side, max(r.t for r in rows))

    def advance(self, side: int, to: int) -> None:
        seen, before = self.newest[side], self.watermark
        self.newest[side] = to if seen is None else max(seen, to)
        reached = [t - late for t, late in zip(self.newest, self.late, strict=True) if t is not None]
        if len(reached) == 2:
            self.watermark = max(min(reached), self.watermark or 0)
        moved = self.watermark != before
        self.last = (None, None) if moved else (to if side == 0 else None, to if side == 1 else None)
        for row in [r for r in self.waiting if self._settled(r)]:
            self._say(row)
            self.waiting.remove(row)

    def restart(self) -> None:
        """The watermark stays, but not what each side has seen: both must bring rows to move it again."""
        self.newest = [None, None]

    def crash(self) -> None:
        """As restart, and the last batch runs again."""
        self.newest = list(self.last)

    def _settled(self, row: Row) -> bool:
        assert self.wait is not None
        return self.watermark is not None and row.t + self.wait < self.watermark

    def _say(self, row: Row) -> None:
        value = self.at(row)
        if value is not None or self.how == "left":
            self.said[row.u] = value

    def at(self, row: Row) -> Value | None:
        """What the table was at the time of a row, by all that has been told."""
        rows = [r for r in self.told if r.k == row.k and r.t <= row.t]
        over = self.ttl is not None and rows and max(r.t for r in rows) + self.ttl <= row.t
        return self.fold(rows) if rows and not over else None
