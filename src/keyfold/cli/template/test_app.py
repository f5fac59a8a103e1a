"""Tests on the real engine: push rows, crash, and check the tables."""

import pytest
from app import app

from keyfold.testing import drive


def order(id, customer, region, amount, at="2026-01-01T00:00:00Z"):
    return {"id": id, "customer": customer, "region": region, "amount": amount, "at": at}


@pytest.fixture
def shop():
    with drive(app) as driver:
        yield driver


def test_totals_are_exact_even_after_a_crash(shop):
    shop.push("orders", [order("1", "ann", "eu", 10.0), order("2", "bob", "eu", 2.5)])
    shop.crash()  # the last batch runs again, as after kill -9
    shop.push("orders", [order("3", "ann", "us", 1.0), order("4", "ann", "us", -1.0)])

    totals = {
        row["region"]: (row["orders"], row["revenue"], row["customers"]) for row in shop.rows("region_totals")
    }
    assert totals == {"eu": (2, 12.5, 2), "us": (1, 1.0, 1)}


def test_rejected_rows_are_kept_with_their_reason(shop):
    shop.push("orders", [order("1", "ann", None, 10.0), '{"id": "2", "amou'])

    assert shop.rows("region_totals") == []
    assert sorted(row["reason"] for row in shop.rejected("orders")) == [
        "does not parse",
        "key region is null",
    ]


def test_a_region_without_orders_for_30_days_expires(shop):
    shop.push("orders", [order("1", "ann", "eu", 10.0)])
    shop.advance("orders", "2026-02-15T00:00:00Z")

    assert shop.rows("region_totals") == []
    assert shop.changes("region_totals")[-1]["_op"] == "delete"
