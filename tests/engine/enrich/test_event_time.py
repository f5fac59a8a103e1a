"""Streams that meet a table as it was at the time of each row: versions, and for how long they are kept.

Times are seconds from the start of 2026; the watermark is that of the stream which is behind.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def app_of(late: str = "100 seconds") -> tuple[kf.App, kf.Stream, kf.Stream]:
    app = kf.App("as_of")
    prices = app.stream("prices", kf.rows([]), "sku string, price int, t timestamp", time="t", late=late)
    orders = app.stream("orders", kf.rows([]), "id int, sku string, t timestamp", time="t", late=late)
    return app, prices, orders


def prices(d: Driver, *found: tuple[Any, ...]) -> None:
    """Rows (sku, price, time) as one batch."""
    d.push("prices", [{"sku": k, "price": p, "t": ZERO + t * SECOND} for k, p, t in found])


def orders(d: Driver, *found: tuple[Any, ...]) -> None:
    """Rows (id, sku, time) as one batch."""
    d.push("orders", [{"id": i, "sku": k, "t": ZERO + t * SECOND} for i, k, t in found])


def advance(d: Driver, to: float) -> None:
    for stream in ("prices", "orders"):
        d.advance(stream, ZERO + to * SECOND)


def met(d: Driver, table: str, *columns: str) -> dict[int, Any]:
    found = {r["id"]: tuple(r[c] for c in columns or ("price",)) for r in d.rows(table)}
    return {i: values[0] if len(values) == 1 else values for i, values in found.items()}


def state(d: Driver, table: str, variable: str = "state") -> list[Any]:
    source = d.handle.spark.read.format("statestore").option("stateVarName", variable)
    checkpoint = str(d.handle.home.table(table).checkpoint)
    return source.option("operatorId", 1).load(checkpoint).collect()


def versions(d: Driver, table: str) -> dict[str, list[float]]:
    """From when on the versions are that are kept of each key."""
    zero = ZERO.timestamp()
    return {
        row.key[0]: [round(v["from"] / 1e6 - zero, 3) for v in row.value.versions] for row in state(d, table)
    }


def test_rows_meet_the_version_of_their_time() -> None:
    app, told, asked = app_of()
    newest = told.by("sku").latest().table("newest", price="price")
    sums = (
        told.where("price < 100")
        .by("sku")
        .table("sums", n="count(*)", total="sum(price)", last="max_by(price, t)")
    )
    short = told.by("sku").latest().table("short", price="price", ttl="10 seconds")
    asked.enrich(newest, as_of="event").by("id").latest().table("left_met", price="price")
    asked.enrich(newest, as_of="event", how="inner").by("id").latest().table("inner_met", price="price")
    asked.enrich(sums, as_of="event").by("id").latest().table("summed", n="n", total="total", last="last")
    asked.enrich(short, as_of="event").by("id").latest().table("short_met", price="price")
    with drive(app) as d:
        prices(d, ("a", 1, 10), ("a", 2, 20), ("a", 3, 15), ("b", 7, 12), (None, 8, 1), ("a", 500, 14))
        d.crash()
        orders(
            d, (1, "a", 9.999999), (2, "a", 10), (3, "a", 13.9), (4, "a", 15), (5, "a", 19.9), (6, "a", 20)
        )
        orders(d, (7, "a", 29.9), (8, "a", 30), (9, "b", 1000), (10, "z", 15), (11, None, 15), (12, "a", 14))
        found = {2: 1, 3: 1, 4: 3, 5: 3, 6: 2, 7: 2, 8: 2, 9: 7, 12: 500}
        none = dict.fromkeys((1, 10, 11))
        assert met(d, "left_met") == {**none, **found}
        assert met(d, "inner_met") == found
        assert met(d, "short_met") == {**none, **found, 8: None, 9: None}
        sums_found = {2: (1, 1, 1), 4: (2, 4, 3), 5: (2, 4, 3), 6: (3, 6, 2), 9: (1, 7, 7), 12: (1, 1, 1)}
        assert {
            i: v for i, v in met(d, "summed", "n", "total", "last").items() if i in sums_found
        } == sums_found
        d.restart()
        # A row of the past is part of its own version and of all that are newer, and two of one time are one.
        prices(d, ("a", 4, 12), ("a", 5, 5), ("a", 6, 20))
        d.crash()
        orders(d, (21, "a", 5), (22, "a", 11), (23, "a", 12), (24, "a", 16), (25, "a", 20))
        d.crash()
        assert {i: p for i, p in met(d, "left_met").items() if i > 20} == {21: 5, 22: 1, 23: 4, 24: 3, 25: 6}
        assert {i: v for i, v in met(d, "summed", "n", "total").items() if i > 20} == {
            21: (1, 5),
            22: (2, 6),
            23: (3, 10),
            24: (4, 13),
            25: (6, 21),
        }
        # What was said stays: as it is known when a row comes.
        assert met(d, "left_met")[3] == 1
        assert [len(d.rejected(t)) for t in ("newest", "left_met", "summed", "prices", "orders")] == [
            1,
            0,
            0,
            1,
            0,
        ]


def test_late_rows_are_set_aside_and_versions_that_nobody_can_ask_for_go() -> None:
    app, told, asked = app_of("10 seconds")
    newest = told.by("sku").latest().table("newest", price="price")
    counts = told.by("sku").table("counts", n="count(*)")
    short = told.by("sku").latest().table("short", price="price", ttl="30 seconds")
    asked.enrich(newest, as_of="event").by("id").latest().table("met", price="price")
    asked.enrich(counts, as_of="event").by("id").tumbling("10 seconds").table("windows", n="sum(n)")
    asked.enrich(short, as_of="event").by("id").latest().table("short_met", price="price")
    with drive(app) as d:
        prices(d, *(("a", t, t) for t in range(10, 60, 5)), ("b", 1, 10))
        orders(d, (1, "a", 40))
        assert versions(d, "met")["a"] == list(range(10, 60, 5))
        # The watermark is 45 - 10, for the orders are behind.
        orders(d, (2, "a", 45))
        prices(d, ("a", 60, 60))
        assert versions(d, "met") == {"a": [35, 40, 45, 50, 55, 60], "b": [10]}
        d.crash()
        orders(d, (3, "a", 34.9), (4, "a", 35), (5, "b", 36), (6, "a", 52))
        d.crash()
        assert met(d, "met") == {1: 40, 2: 45, 4: 35, 5: 1, 6: 50}
        for table in ("met", "windows", "short_met"):
            assert [json.loads(r["raw"])["id"] for r in d.late(table)] == [3], table
        # The watermark is 42. A price below it still counts in what is kept.
        prices(d, ("a", 0, 20), ("b", 2, 5), ("a", 0, 37))
        assert versions(d, "met") == {"a": [40, 45, 50, 55, 60], "b": [10]}
        orders(d, (7, "a", 45), (8, "a", 43), (9, "b", 44))
        assert {r["id"]: r["n"] for r in d.rows("windows")} == {
            1: 7,
            2: 8,
            4: 6,
            5: 1,
            6: 9,
            7: 10,
            8: 9,
            9: 2,
        }
        # Without rows nobody asks for what the table has forgotten: b at 40, a at 90.
        advance(d, 51)
        assert set(versions(d, "short_met")) == {"a"}
        advance(d, 99.9)
        assert set(versions(d, "short_met")) == {"a"}
        advance(d, 100)
        assert versions(d, "short_met") == {}
        assert set(versions(d, "met")) == {"a", "b"}
        prices(d, ("a", 9, 101))
        d.crash()
        orders(d, (10, "a", 100.5), (11, "a", 130.9), (12, "a", 131))
        assert {i: p for i, p in met(d, "short_met").items() if i > 9} == {10: None, 11: 9, 12: None}


def test_a_row_that_waits_is_answered_when_no_version_of_its_time_can_come() -> None:
    app, told, asked = app_of("10 seconds")
    newest = told.by("sku").latest().table("newest", price="price")
    asked.enrich(newest, as_of="event", wait=0).by("id").latest().table("none", price="price")
    asked.enrich(newest, as_of="event", wait="20 seconds", how="inner").by("id").latest().table(
        "long", price="price"
    )
    with drive(app) as d:
        orders(d, (1, "a", 30), (2, "a", 50), (3, "z", 30), (4, None, 30))
        assert (met(d, "none"), met(d, "long")) == ({4: None}, {})
        assert (len(state(d, "none", "rows")), len(state(d, "long", "rows"))) == (3, 3)
        prices(d, ("a", 1, 10), ("a", 2, 40))
        d.crash()
        # The watermark is 30, and a price of 30 is in time.
        assert 1 not in met(d, "none")
        prices(d, ("a", 3, 30))
        assert 1 not in met(d, "none")
        advance(d, 40.001)
        assert met(d, "none") == {1: 3, 3: None, 4: None}
        d.crash()
        # Row 1 waits until 50 in the other: until then a price of before 30 may come, or of after it.
        advance(d, 59)
        prices(d, ("a", 4, 45), ("a", 5, 29), ("a", 6, 30))
        assert met(d, "long") == {}
        assert versions(d, "long")["a"] == [29, 30, 40, 45]
        d.restart()
        advance(d, 60.001)
        d.crash()
        assert met(d, "long") == {1: 6}
        assert met(d, "none") == {1: 3, 2: 4, 3: None, 4: None}
        advance(d, 90)
        assert met(d, "long") == {1: 6, 2: 4}
        assert state(d, "long", "rows") == state(d, "none", "rows") == []
        assert d.late("none") == d.late("long") == []
