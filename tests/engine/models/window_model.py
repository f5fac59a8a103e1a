"""What window tables should hold, by brute force in plain Python: the model of the property tests.

It imports nothing of keyfold, and nothing of Spark. Times are whole seconds since the epoch; a bound is the
pair (start, end); rows of the view are found by key and bounds, those of rolling and last by key alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Bounds = tuple[int, ...]
Place = tuple[str, Bounds]


@dataclass(frozen=True)
class Row:
    """One row. `u` counts rows as they arrive, `gap` is what a session with a gap per row goes by."""

    k: str
    t: int
    v: int | None
    u: int
    gap: int = 0


@dataclass
class Step:
    """What one batch does, and the closing that follows it: changes, and late rows with what they missed."""

    changes: list[tuple[str, Place, tuple[Row, ...]]] = field(default_factory=list)
    late: list[tuple[Row, tuple[Bounds, ...]]] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)
    """Keys whose rows were all late: whether an unchanged row is sent again is not settled."""

    def add(self, op: str, place: Place, rows: Iterable[Row] = ()) -> None:
        self.changes.append((op, place, tuple(rows)))


class Windows:
    """What all kinds share: the watermark, closing, expiry."""

    def __init__(self, late: int = 0, emit: str = "changes", keep: int | None = None) -> None:
        self.lateness, self.emit, self.keep = late, emit, keep
        self.watermark: int | None = None
        self.open: dict[Place, list[Row]] = {}
        self.closed: dict[Place, list[Row]] = {}

    @property
    def view(self) -> dict[Place, list[Row]]:
        return self.closed if self.emit == "final" else {**self.open, **self.closed}

    def push(self, rows: Sequence[Row]) -> Step:
        """One batch, and the batch without rows that follows it."""
        step = Step()
        self.fold(sorted(rows, key=lambda r: (r.t, r.u)), step)
        if rows:
            self.move(max(r.t for r in rows), step)
        return step

    def advance(self, to: int) -> Step:
        step = Step()
        self.move(to, step)
        return step

    def fold(self, rows: list[Row], step: Step) -> None:
        raise NotImplementedError

    def over(self, end: int) -> bool:
        return self.watermark is not None and end <= self.watermark

    def move(self, newest: int, step: Step) -> None:
        reached = newest - self.lateness
        self.watermark = reached if self.watermark is None else max(self.watermark, reached)
        for place in [p for p in self.open if self.over(p[1][1])]:
            self.closed[place] = self.open.pop(place)
            step.add("final", place, self.closed[place])
        if self.keep is not None:
            for place in [p for p in self.closed if self.over(p[1][1] + self.keep)]:
                del self.closed[place]
                step.add("delete", place)

    def changed(self, op: str, place: Place, rows: Iterable[Row], step: Step) -> None:
        if self.emit == "changes":
            step.add(op, place, rows)


class Aligned(Windows):
    """Tumbling and sliding: a row belongs to every aligned window that holds its time."""

    def __init__(self, size: int, every: int | None = None, offset: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.every, self.offset = size, every or size, offset

    def windows(self, t: int) -> Iterator[Bounds]:
        for start in range(t - self.size + 1, t + 1):
            if (start - self.offset) % self.every == 0:
                yield (start, start + self.size)

    def fold(self, rows: list[Row], step: Step) -> None:
        touched: dict[Place, None] = {}
        for row in rows:
            found = list(self.windows(row.t))
            missed = tuple(b for b in found if self.over(b[1]))
            if missed:
                step.late.append((row, missed))
            for place in ((row.k, b) for b in found if b not in missed):
                self.open.setdefault(place, []).append(row)
                touched[place] = None
        for place in touched:
            self.changed("upsert", place, self.open[place], step)


class Sessions(Windows):
    """Rows that are at most the gap apart; without a gap, each row brings its own."""

    def __init__(self, gap: int | None, **options: Any) -> None:
        super().__init__(**options)
        self.gap = gap

    def span(self, row: Row) -> Bounds:
        return (row.t, row.t + (row.gap if self.gap is None else self.gap))

    def fold(self, rows: list[Row], step: Step) -> None:
        for k in dict.fromkeys(r.k for r in rows):
            self.fold_key(k, [r for r in rows if r.k == k], step)

    def fold_key(self, k: str, rows: list[Row], step: Step) -> None:
        before = {p: self.open.pop(p) for p in list(self.open) if p[0] == k}
        parts = [(p[1], found) for p, found in before.items()] + [(self.span(r), [r]) for r in rows]
        for bounds, found in merged(parts):
            if self.over(bounds[1]):
                step.late.extend((r, (self.span(r),)) for r in found)
                continue
            self.open[k, bounds] = found
            if before.get((k, bounds)) != found:
                self.changed("upsert", (k, bounds), found, step)
        for place in before.keys() - self.open.keys():
            self.changed("delete", place, (), step)


def merged(parts: list[tuple[Bounds, list[Row]]]) -> list[tuple[Bounds, list[Row]]]:
    """Parts that touch become one."""
    found: list[tuple[Bounds, list[Row]]] = []
    for (start, end), rows in sorted(parts, key=lambda part: part[0]):
        if found and start <= found[-1][0][1]:
            (first, last), earlier = found[-1]
            found[-1] = ((first, max(last, end)), [*earlier, *rows])
        else:
            found.append(((start, end), rows))
    return found


class Moving(Windows):
    """Rolling and last: one row per key, over kept rows; late is what the rows before the batch leave out."""

    def fold(self, rows: list[Row], step: Step) -> None:
        for k in dict.fromkeys(r.k for r in rows):
            mine = [r for r in rows if r.k == k]
            kept = self.open.get((k, ()), [])
            late = [r for r in mine if kept and self.too_old(r, kept)]
            step.late.extend((r, ()) for r in late)
            if len(late) == len(mine):
                step.idle.add(k)
                continue
            every = sorted([*kept, *(r for r in mine if r not in late)], key=lambda r: (r.t, r.u))
            self.open[k, ()] = self.covered(every)
            step.add("upsert", (k, ()), self.open[k, ()])

    def move(self, newest: int, step: Step) -> None:
        """Nothing closes."""

    def too_old(self, row: Row, kept: list[Row]) -> bool:
        raise NotImplementedError

    def covered(self, rows: list[Row]) -> list[Row]:
        raise NotImplementedError


class Rolling(Moving):
    """The rows of (newest - size, newest]; with `every`, of panes that start at (end of newest) - size."""

    def __init__(self, size: int, every: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.size, self.every = size, every

    def inside(self, row: Row, newest: int) -> bool:
        if self.every is None:
            return row.t > newest - self.size
        end = (newest // self.every + 1) * self.every
        return row.t // self.every * self.every >= end - self.size

    def too_old(self, row: Row, kept: list[Row]) -> bool:
        return not self.inside(row, kept[-1].t)

    def covered(self, rows: list[Row]) -> list[Row]:
        return [r for r in rows if self.inside(r, rows[-1].t)]


class Last(Moving):
    """The newest n rows, by time and then by arrival."""

    def __init__(self, n: int, **options: Any) -> None:
        super().__init__(**options)
        self.n = n

    def too_old(self, row: Row, kept: list[Row]) -> bool:
        return len(kept) == self.n and row.t < kept[0].t

    def covered(self, rows: list[Row]) -> list[Row]:
        return rows[-self.n :]


def aggregates(rows: Iterable[Row]) -> dict[str, Any]:
    """The columns of the tables under test, over the rows of one window."""
    rows = list(rows)
    values = sorted(r.v for r in rows if r.v is not None)
    return {
        "n": len(rows),
        "total": sum(values) if values else None,
        "least": min(values, default=None),
        "most": max(values, default=None),
        "items": values,
        "squares": sum(v * v for v in values),
    }


def chain(rows: Iterable[Row]) -> int:
    """A fold that depends on the order of its rows."""
    state = 0
    for row in rows:
        state = (state * 31 + (7 if row.v is None else row.v + 100)) % 1_000_003
    return state
