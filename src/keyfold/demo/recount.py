"""Recounts the demo's totals from its files in plain Python, and compares them with the views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from keyfold.demo.generate import rows_of
from keyfold.demo.shop import LATE, VISIT_TTL

Rows = Callable[[str], Iterable[dict[str, Any]]]


@dataclass
class Totals:
    """Aggregates of some orders."""

    orders: int = 0
    revenue: float = 0.0
    best: float = 0.0
    customers: set[str] = field(default_factory=set)

    def add(self, row: dict[str, Any]) -> None:
        self.orders += 1
        self.revenue += row["amount"]
        self.best = max(self.best, row["amount"])
        self.customers.add(row["customer"])


def differences(data: Path, rows: Rows) -> list[str]:
    """The differences between the views, read by `rows(table)`, and a recount of the files."""
    regions: dict[str, Totals] = defaultdict(Totals)
    customers: dict[str, Totals] = defaultdict(Totals)
    products: dict[str, Totals] = defaultdict(Totals)
    for row in filter(_valid, rows_of(data / "orders")):
        customers[row["customer"]].add(row)
        products[row["product"]].add(row)
        if row["region"] is not None:
            regions[row["region"]].add(row)
    visits: dict[str, int] = defaultdict(int)
    newest: dict[str, str] = defaultdict(str)
    for row in rows_of(data / "clicks"):
        visits[row["visit"]] += 1
        newest[row["visit"]] = max(newest[row["visit"]], row["at"])
    expired = _may_be_expired(newest)
    return [
        *_compare("regions", rows, {k: (t.orders, t.revenue, len(t.customers)) for k, t in regions.items()}),
        *_compare("customers", rows, {k: (t.orders, t.revenue, t.best) for k, t in customers.items()}),
        *_compare("products", rows, {k: (t.orders, t.revenue / t.orders) for k, t in products.items()}),
        *_compare("visits", rows, {k: (pages,) for k, pages in visits.items()}, expired),
    ]


def _may_be_expired(newest: dict[str, str]) -> set[str]:
    """Visits whose `ttl` may have expired; ISO timestamps sort as text."""
    if not newest:
        return set()
    watermark = datetime.fromisoformat(max(newest.values())) - LATE
    return {visit for visit, at in newest.items() if datetime.fromisoformat(at) + VISIT_TTL <= watermark}


def _valid(row: dict[str, Any]) -> bool:
    """Whether the app folds an order: it parses, and passes `amount > 0`."""
    return isinstance(row["amount"], float) and row["amount"] > 0


def _compare(
    table: str, rows: Rows, expected: dict[str, tuple[float, ...]], expired: Set[str] = frozenset()
) -> list[str]:
    found = {next(iter(row.values())): tuple(row.values())[1:] for row in rows(table)}
    return [
        f"{table} {key}: {found.get(key)} instead of {values}"
        for key, values in expected.items()
        if key not in expired
        and (key not in found or not all(_same(a, b) for a, b in zip(found[key], values, strict=False)))
    ] + [f"{table} {key}: is not in the files" for key in found.keys() - expected.keys()]


def _same(one: float, other: float) -> bool:
    # Sums of floats differ in their last digits with the order of addition.
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1.0)
