"""Which rows of a stream are repeats, by brute force in plain Python: the model of the property tests.

It imports nothing of keyfold, and nothing of Spark. Times are whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One row; `u` is its number in the order of arrival."""

    k: str | None
    g: int
    t: int
    u: int


@dataclass
class Distinct:
    """A row is a repeat if one of its key that was kept is less than `within` before or after it."""

    columns: tuple[str, ...]
    within: int
    late: int
    kept: list[Row] = field(default_factory=list)
    duplicates: list[Row] = field(default_factory=list)
    too_late: list[Row] = field(default_factory=list)
    rejected: list[Row] = field(default_factory=list)
    watermark: int | None = None

    def push(self, rows: Sequence[Row]) -> None:
        """One batch: its rows are looked at by time, then in the order of arrival."""
        for row in sorted(rows, key=lambda r: (r.t, r.u)):
            self._place(row).append(row)
        self.advance(max(r.t for r in rows))

    def _place(self, row: Row) -> list[Row]:
        if "k" in self.columns and row.k is None:
            return self.rejected
        if self.watermark is not None and row.t < self.watermark:
            return self.too_late
        repeat = any(self.key(r) == self.key(row) and abs(r.t - row.t) < self.within for r in self.kept)
        return self.duplicates if repeat else self.kept

    def key(self, row: Row) -> tuple[object, ...]:
        return tuple(getattr(row, column) for column in self.columns)

    def advance(self, to: int) -> None:
        self.watermark = max(to - self.late, self.watermark or 0)

    def remembered(self) -> int:
        """Keys of which a row that is not late could still be a repeat."""
        assert self.watermark is not None
        return len({self.key(r) for r in self.kept if r.t + self.within > self.watermark})
