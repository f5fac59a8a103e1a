"""The rows that differ between a table and its shadow: added, removed, and changed column by column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from keyfold.views.contract import ViewStore

Change = Literal["added", "removed", "changed"]


@dataclass(frozen=True)
class RowDifference:
    """A row that differs: its key, and the value before and after of each differing column."""

    key: dict[str, Any]
    change: Change
    before: dict[str, Any]
    after: dict[str, Any]


@dataclass
class Differences:
    """How many rows differ, and the first of them."""

    compared: int = 0
    counts: dict[Change, int] = field(default_factory=lambda: {"added": 0, "removed": 0, "changed": 0})
    rows: list[RowDifference] = field(default_factory=list)

    def add(self, found: RowDifference | None, limit: int) -> None:
        """Counts a row that was compared."""
        self.compared += 1
        if found is not None:
            self.counts[found.change] += 1
            if len(self.rows) < limit:
                self.rows.append(found)


def differences(
    before: ViewStore | None, old: str, after: ViewStore, table: str, batches: tuple[int, int], limit: int
) -> Differences:
    """Compares the rows that either side has changed after a batch: `batches`, of each side."""
    found = Differences()
    keys = [column.name for column in after.schema(table).keys]
    before = before if before is not None and old in before.tables() else None
    same_keys = before is not None and [column.name for column in before.schema(old).keys] == keys
    if before is not None and not same_keys:
        names = [column.name for column in before.schema(old).keys]
        for gone in _since(before, old, batches[0]):
            found.add(_difference(names, gone, None), limit)
    for key in _keys(before if same_keys else None, old, after, table, keys, batches):
        row = before.get(old, key) if before is not None and same_keys else None
        found.add(_difference(keys, row, after.get(table, key)), limit)
    return found


def _keys(
    before: ViewStore | None,
    old: str,
    after: ViewStore,
    table: str,
    keys: list[str],
    batches: tuple[int, int],
) -> Iterator[list[Any]]:
    """The keys of rows that changed on either side, in the order of the old view, then of the new one."""
    seen = set()
    for row in () if before is None else _since(before, old, batches[0]):
        seen.add(repr([row[name] for name in keys]))
        yield [row[name] for name in keys]
    for row in _since(after, table, batches[1]):
        if repr([row[name] for name in keys]) not in seen:
            yield [row[name] for name in keys]


def _since(store: ViewStore, table: str, batch: int) -> Iterator[dict[str, Any]]:
    return (row for row in store.scan(table) if row["_batch"] > batch)


def _difference(
    keys: list[str], before: dict[str, Any] | None, after: dict[str, Any] | None
) -> RowDifference | None:
    one, other = _values(before, keys), _values(after, keys)
    key = {name: (before or after or {})[name] for name in keys}
    if before is None or after is None:
        if before is after:
            return None
        return RowDifference(key, "added" if before is None else "removed", one, other)
    names = [name for name in dict.fromkeys((*one, *other)) if not same(one.get(name), other.get(name))]
    if not names:
        return None
    first = {name: one[name] for name in names if name in one}
    second = {name: other[name] for name in names if name in other}
    return RowDifference(key, "changed", first, second)


def _values(row: dict[str, Any] | None, keys: list[str]) -> dict[str, Any]:
    return {n: v for n, v in (row or {}).items() if n not in keys and n not in ("_batch", "_at")}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; sums of doubles differ with the order of their rows.

    >>> same(0.1 + 0.2, 0.3), same(float("nan"), float("nan")), same(1, 2), same([1.0], [1.0])
    (True, True, False, True)
    """
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return bool(one == other)
