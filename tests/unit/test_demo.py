"""The demo's recount: it finds what is wrong, and forgives what TTL may have forgotten."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.demo.generate import Generator, rows_of
from keyfold.demo.recount import differences

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
Views = dict[str, list[dict[str, Any]]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What visitors did three hours ago, and just now."""
    generator = Generator(tmp_path)
    generator.tick(NOW - timedelta(hours=3))
    generator.tick(NOW)
    return tmp_path


@pytest.fixture
def views(data: Path) -> Views:
    """What keyfold would hold, had it forgotten nothing."""
    visits: dict[str, int] = defaultdict(int)
    for row in rows_of(data / "clicks"):
        visits[row["visit"]] += 1
    paid = [row for row in rows_of(data / "orders") if isinstance(row["amount"], float)]
    grouped: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for key in ("region", "customer", "product"):
        grouped[key] = defaultdict(list)
        for row in paid:
            if row[key] is not None:
                grouped[key][row[key]].append(row)

    def amounts(rows: list[dict[str, Any]]) -> list[float]:
        return [row["amount"] for row in rows]

    return {
        "visits": [{"visit": visit, "pages": pages} for visit, pages in visits.items()],
        "regions": [
            {"k": k, "n": len(r), "sum": sum(amounts(r)), "customers": len({row["customer"] for row in r})}
            for k, r in grouped["region"].items()
        ],
        "customers": [
            {"k": k, "n": len(r), "sum": sum(amounts(r)), "best": max(amounts(r))}
            for k, r in grouped["customer"].items()
        ],
        "products": [
            {"k": k, "n": len(r), "mean": sum(amounts(r)) / len(r)} for k, r in grouped["product"].items()
        ],
    }


def test_equal_totals_are_equal(data: Path, views: Views) -> None:
    assert len(views["customers"]) > 50
    assert differences(data, views.__getitem__) == []


@pytest.mark.parametrize("table", ["visits", "regions", "customers", "products"])
def test_a_wrong_total_a_missing_key_and_one_too_many_are_found(data: Path, views: Views, table: str) -> None:
    first, *rest = views[table][::-1]
    name, key = next(iter(first.items()))
    wrong = {**views, table: [*rest, {**first, list(first)[1]: 999_999}]}
    assert [key in found for found in differences(data, wrong.__getitem__)] == [True]
    assert len(differences(data, {**views, table: rest}.__getitem__)) == 1
    more = {**views, table: [*views[table], {**first, name: "made up"}]}
    assert differences(data, more.__getitem__) == [f"{table} made up: is not in the files"]


def test_only_visits_older_than_their_lifetime_may_be_forgotten(data: Path, views: Views) -> None:
    young = [row for row in views["visits"] if row["visit"].startswith("v1-")]
    assert 0 < len(young) < len(views["visits"])
    assert differences(data, {**views, "visits": young}.__getitem__) == []
    assert len(differences(data, {**views, "visits": young[1:]}.__getitem__)) == 1


def test_some_rows_are_broken_from_the_first_file_on(tmp_path: Path) -> None:
    Generator(tmp_path).tick(NOW)
    lines = (tmp_path / "clicks" / "000000.json").read_text().splitlines()
    assert len(list(rows_of(tmp_path / "clicks"))) == len(lines) - 1
