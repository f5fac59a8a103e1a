"""Streams that meet a table: its row as of their arrival, or as of their event time.

Times are seconds from the start of 2026. Oracle cases K are of `shared/oracles/semantics.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadExpression
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NEWS, ORDERS = "p string, name string, t timestamp", "id int, p string, x int, t timestamp"


def at(seconds: float) -> datetime:
    return ZERO + seconds * SECOND


def stream(app: kf.App, name: str, schema: str, late: Any = 0) -> kf.Stream:
    return app.stream(
        name, kf.rows([]), schema=schema, time="t" if ", t timestamp" in schema else None, late=late
    )


def news(d: Driver, *found: tuple[Any, ...]) -> None:
    """Rows (p, name[, time]) of the stream that feeds a table, as one batch."""
    d.push("news", [{"p": p, "name": n, **({"t": at(t[0])} if t else {})} for p, n, *t in found])


def orders(d: Driver, *found: tuple[Any, ...]) -> None:
    """Rows (id, p[, time]) of the stream that meets it, as one batch; x is ten times the id."""
    rows = [{"id": i, "p": p, "x": 10 * i, **({"t": at(t[0])} if t else {})} for i, p, *t in found]
    d.push("orders", rows)


def met(d: Driver, table: str, column: str = "name") -> dict[int, Any]:
    """What each order has met."""
    return {r["id"]: r[column] for r in d.rows(table)}


def held(d: Driver, table: str, variable: str = "rows") -> int:
    """Elements of a state of the step of enrich."""
    return len(state(d, table, variable))


def state(d: Driver, table: str, variable: str = "state") -> list[Any]:
    source = d.handle.spark.read.format("statestore").option("stateVarName", variable)
    checkpoint = str(d.handle.home.table(table).checkpoint)
    return source.option("operatorId", 1).load(checkpoint).collect()


# As of arrival


def test_rows_have_the_columns_of_the_table_under_names_of_their_own() -> None:
    app = kf.App("names")
    wide = stream(
        app,
        "wide",
        "who string, area double, City string, price decimal(10,2), tags array<string>, "
        "sizes map<string,int>, inner struct<a:int,b:string>, day date, seen timestamp_ntz, flag boolean",
    )
    table = wide.by("who", "area").latest().table("places")
    rows = stream(app, "rows", "id int, buyer string, zone double, city string")
    left = rows.enrich(table, on=["buyer", "ZONE"])
    left.by("id").latest().table("met")
    rows.enrich(table, on=["buyer", "zone"], how="inner").by("id").latest().table("inner_met", price="price")
    with drive(app) as d:
        d.push("rows", [{"id": 1, "buyer": "ann", "zone": 0.0, "city": "x"}])
        values = {
            "City": "Oslo", "price": "1.50", "tags": ["a", None], "sizes": {"s": 1},
            "inner": {"a": 1, "b": None}, "day": "2026-02-03", "seen": "2026-01-01T00:00:00", "flag": True,
        }  # fmt: skip
        d.push("wide", [{"who": "ann", "area": -0.0, **values}, {"who": "bob", "area": 1.0}, {"who": "ann"}])
        d.push(
            "rows",
            [
                {"id": 2, "buyer": "ann", "zone": -0.0, "city": "y"},
                {"id": 3, "buyer": "ann", "zone": 1.0},
                {"id": 4, "buyer": "bob", "zone": 1.0, "city": "z"},
                {"id": 5, "buyer": None, "zone": 0.0},
                {"id": 6, "buyer": "ann", "zone": None},
            ],
        )
        none = dict.fromkeys(("places_City", *list(values)[1:]))
        found = {r["id"]: r for r in d.rows("met")}
        assert list(found[1]) == ["id", "buyer", "zone", "city", *none]
        assert found[2] == {
            "id": 2, "buyer": "ann", "zone": 0.0, "city": "y", "places_City": "Oslo",
            "price": Decimal("1.50"), "tags": ["a", None], "sizes": {"s": 1}, "inner": {"a": 1, "b": None},
            "day": date(2026, 2, 3), "seen": datetime(2026, 1, 1), "flag": True,
        }  # fmt: skip
        for i in (1, 3, 4, 5, 6):
            assert {n: found[i][n] for n in none} == none
        assert d.rows("inner_met") == [{"id": 2, "price": Decimal("1.50")}, {"id": 4, "price": None}]
        # The table's row without an area, and nothing of the orders without a key.
        assert [len(d.rejected(n)) for n in ("places", "met", "inner_met")] == [1, 0, 0]


def test_one_table_is_met_by_several_streams_and_twice_on_the_way_of_one() -> None:
    app = kf.App("several")
    people = stream(app, "news", "p string, name string").by("p").latest().table("people")
    made = stream(app, "orders", "id int, p string, x int")
    second = made.select("*", seller="case when id % 2 = 0 then 'b' else 'a' end")
    second.enrich(people, on="p").enrich(people, on="seller", how="inner").by("id").latest().table("twice")
    other = stream(app, "other", "id int, q string")
    other.enrich(people, on="q").by("id").latest().table("others")
    totals = people.changes(previous=True).by("p").table("edits", n="count(*)")
    made.distinct("id", within="1 hour").enrich(totals, on="p").by("id").latest().table("edited")
    with drive(app) as d:
        news(d, ("a", "Ann"), ("b", "Bob"), ("a", "Anna"))
        orders(d, (1, "b"), (1, "b"), (3, "a"))
        d.crash()
        news(d, ("a", "Ana"))
        d.crash()
        orders(d, (2, "a"), (4, "z"))
        d.push("other", [{"id": 1, "q": "a"}, {"id": 2, "q": "z"}])
        d.crash()
        assert [(r["id"], r["name"], r["people_name"]) for r in d.rows("twice")] == [
            (1, "Bob", "Anna"),
            (2, "Ana", "Bob"),
            (3, "Anna", "Anna"),
            (4, None, "Bob"),
        ]
        assert met(d, "others") == {1: "Ana", 2: None}
        # Two edits of Ann's row: what comes in one batch is one change.
        assert met(d, "edited", "n") == {1: 1, 2: 2, 3: 1, 4: None}
        d.restart()
        orders(d, (5, "b"))
        assert met(d, "twice")[5] == "Bob"


def test_k21_a_stream_and_a_table() -> None:
    """K21: one row a batch, latest by arrival, so that no stream has a time. The stream's nulls produce
    nothing: `where` leaves them out. A null of the table is a row of a null: what meets it has none;
    for the inner join that is one more `where`.
    """
    app = kf.App("k21")
    table = stream(app, "news", "p string, name string").by("p").latest().table("right")
    left = stream(app, "orders", "p string, v string").where("v is not null")
    left.enrich(table).by("v").latest().table("outer_join", r="name")
    left.enrich(table, how="inner").where("name is not null").by("v").latest().table("inner_join", r="name")
    given = "L: R: L:A R:a L:B R:b L: R: L:C R:c R: L: R: R:d L:D L: R: R:e L:E L: R: L:F R:f"
    with drive(app) as d:
        for step in given.split():
            side, _, value = step.partition(":")
            if side == "L":
                d.push("orders", [{"p": "k", "v": value or None}])
            else:
                news(d, ("k", value or None))
        shown = {t: [f"{r['v']}-{r['r']}" for r in d.rows(t)] for t in ("inner_join", "outer_join")}
        assert shown["inner_join"] == ["B-a", "D-d", "E-e"]
        assert shown["outer_join"] == ["A-None", "B-a", "C-None", "D-d", "E-e", "F-None"]


def test_rows_wait_for_the_table_and_meet_what_it_has_forgotten_no_more() -> None:
    app = kf.App("waits")
    people = stream(app, "news", NEWS).by("p").latest().table("people", ttl="100 seconds")
    made = stream(app, "orders", ORDERS, late="5 seconds")
    made.enrich(people).by("id").latest().table("at_once", name="name")
    made.enrich(people, wait="10 seconds").by("id").latest().table("left_wait", name="name")
    made.enrich(people, wait="10 seconds", how="inner").by("id").latest().table("inner_wait", name="name")
    with drive(app) as d:
        orders(d, (1, "a", 100), (2, "b", 101), (3, None, 101))
        assert met(d, "at_once") == {1: None, 2: None, 3: None}
        assert (met(d, "left_wait"), met(d, "inner_wait")) == ({3: None}, {})
        d.crash()
        news(d, ("a", "Ann", 100))
        d.crash()
        assert met(d, "left_wait") == {1: "Ann", 3: None}
        assert met(d, "inner_wait") == {1: "Ann"}
        # Row 2 is due at 111, and the watermark is 5 behind.
        d.advance("orders", at(115.999))
        assert 2 not in met(d, "left_wait")
        assert held(d, "left_wait") == held(d, "inner_wait") == 1
        d.advance("orders", at(116))
        d.crash()
        assert met(d, "left_wait") == {1: "Ann", 2: None, 3: None}
        assert met(d, "inner_wait") == {1: "Ann"}
        assert held(d, "left_wait") == held(d, "inner_wait") == 0
        # What came long after its time has nothing left to wait for.
        orders(d, (4, "b", 50), (5, "b", 112), (6, "b", 113))
        assert met(d, "left_wait")[4] is None
        d.restart()
        news(d, ("b", "Bob", 101))
        orders(d, (7, "b", 113))
        assert met(d, "left_wait") == {1: "Ann", 2: None, 3: None, 4: None, 5: "Bob", 6: "Bob", 7: "Bob"}
        assert met(d, "inner_wait") == {1: "Ann", 5: "Bob", 6: "Bob", 7: "Bob"}
        assert met(d, "at_once") == {1: None, 2: None, 3: None, 4: None, 5: None, 6: None, 7: "Bob"}
        # Ann is forgotten at 200, Bob at 201.
        d.advance("news", at(200))
        assert [r["p"] for r in d.rows("people")] == ["b"]
        orders(d, (8, "a", 114), (9, "b", 114))
        d.crash()
        assert (met(d, "at_once")[8], met(d, "at_once")[9]) == (None, "Bob")
        assert 8 not in met(d, "left_wait")
        assert [len(state(d, t)) for t in ("at_once", "left_wait")] == [1, 1], "the table's rows"
        news(d, ("a", "Eve", 200))
        assert met(d, "left_wait")[8] == "Eve"
        assert sum(len(d.late(t)) + len(d.rejected(t)) for t in ("at_once", "left_wait", "inner_wait")) == 0


def groups(d: Driver, table: str) -> dict[Any, tuple[int, int]]:
    return {r["name"]: (r["n"], r["total"]) for r in d.rows(table)}


def test_rows_follow_the_table_from_group_to_group() -> None:
    app = kf.App("follows")
    people = stream(app, "news", NEWS).by("p").latest().table("people", ttl="100 seconds")
    made = stream(app, "orders", ORDERS)

    def grouped(rows: kf.Stream, name: str) -> None:
        rows.by(name="coalesce(name, '-')").table(name, n="count(*)", total="sum(x)")

    grouped(made.enrich(people, on_update=True), "left_follow")
    grouped(made.enrich(people, on_update=True, how="inner"), "inner_follow")
    grouped(made.enrich(people, on_update=True, keep="10 seconds"), "short")
    spent = made.by("p").table("spent", x="sum(x)")
    grouped(spent.changes().enrich(people), "of_spent")
    with drive(app) as d:
        orders(d, (1, "a", 100), (2, "a", 101), (3, "b", 102), (4, None, 102))
        for table in ("left_follow", "short"):
            assert groups(d, table) == {"-": (4, 100)}
        assert groups(d, "inner_follow") == {}
        assert groups(d, "of_spent") == {"-": (2, 60)}
        news(d, ("a", "Ann", 100), ("b", "Ann", 100))
        d.crash()
        for table in ("left_follow", "short"):
            assert groups(d, table) == {"-": (1, 40), "Ann": (3, 60)}
        assert groups(d, "inner_follow") == {"Ann": (3, 60)}
        assert groups(d, "of_spent") == {"Ann": (2, 60)}
        # Rows 1 and 2 are kept until 110 and 111.
        orders(d, (5, "a", 111))
        d.crash()
        assert groups(d, "of_spent") == {"Ann": (2, 110)}
        assert held(d, "short") == 2
        news(d, ("a", "Eve", 101))
        assert groups(d, "left_follow") == {"-": (1, 40), "Ann": (1, 30), "Eve": (3, 80)}
        assert groups(d, "inner_follow") == {"Ann": (1, 30), "Eve": (3, 80)}
        assert groups(d, "short") == {"-": (1, 40), "Ann": (3, 60), "Eve": (1, 50)}
        assert groups(d, "of_spent") == {"Ann": (1, 30), "Eve": (1, 80)}
        # A row that comes too late to follow is said once.
        orders(d, (6, "b", 90))
        assert held(d, "short") == 2
        # The table forgets b, then a.
        d.advance("news", at(200))
        d.crash()
        assert groups(d, "left_follow") == {"-": (3, 130), "Eve": (3, 80)}
        assert groups(d, "inner_follow") == {"Eve": (3, 80)}
        assert groups(d, "short") == {"-": (2, 70), "Ann": (3, 90), "Eve": (1, 50)}
        assert groups(d, "of_spent") == {"-": (1, 90), "Eve": (1, 80)}
        d.restart()
        news(d, ("b", "Bob", 200))
        assert groups(d, "left_follow") == {"-": (1, 40), "Bob": (2, 90), "Eve": (3, 80)}
        d.advance("news", at(301))
        assert groups(d, "left_follow") == {"-": (6, 210)}
        assert groups(d, "inner_follow") == {}
        assert groups(d, "of_spent") == {"-": (2, 170)}
        assert state(d, "left_follow") == []


def test_rows_set_aside_go_through_and_windows_close_behind_it(tmp_path: Path) -> None:
    """Then a reader comes to a table that has rows already."""

    def declared(more: bool) -> kf.App:
        app = kf.App("aside")
        counts = stream(app, "news", NEWS).by("p").tumbling("10 seconds").table("counts", n="count(*)")
        made = stream(app, "orders", ORDERS).select(
            "*", part="100 div (x - 70)", since="timestamp_seconds(unix_seconds(t) div 10 * 10)"
        )
        there = made.select("*", until="since + interval 10 seconds").enrich(
            counts, on=["p", "since", "until"]
        )
        keyed = there.select("id", "p", "n", more="n div (x - 80)").by("p")
        keyed.tumbling("10 seconds").table("windows", rows="count(*)", n="sum(n)", ids="collect_list(id)")
        if more:
            known = stream(app, "known", "id int, p string, since timestamp, until timestamp")
            known.enrich(counts, on=["p", "since", "until"]).by("id").latest().table("later", n="n")
            known.enrich(counts, on=["p", "since", "until"], on_update=True, how="inner").by("p").table(
                "follows", sum="sum(n)"
            )
        return app

    def windows(d: Driver) -> dict[Any, Any]:
        rows = d.rows("windows")
        return {
            (r["p"], (r["window_start"] - ZERO) / SECOND): (r["rows"], r["n"], sorted(r["ids"])) for r in rows
        }

    with drive(declared(more=False), home=tmp_path) as d:
        news(d, ("a", "", 1), ("a", "", 2), ("a", "", 11), ("b", "", 3))
        orders(d, (1, "a", 1), (2, "a", 12), (3, "b", 4), (7, "a", 5), (8, "a", 5), (9, "b", 15))
        d.push("orders", ["no json", {"id": 10, "p": "a"}, {"id": 11, "t": at(15)}])
        d.crash()
        expected = {
            ("a", 0): (1, 2, [1]),
            ("a", 10): (1, 1, [2]),
            ("b", 0): (1, 1, [3]),
            ("b", 10): (1, None, [9]),
        }
        assert windows(d) == expected
        orders(d, (12, "a", 9.999), (13, "a", 10))
        d.crash()
        expected[("a", 10)] = (2, 2, [2, 13])
        assert windows(d) == expected
        assert [json.loads(r["raw"])["id"] for r in d.late("windows")] == [12]
        reasons = Counter(r["reason"].split(":")[0] for r in d.rejected("windows"))
        assert (reasons["does not parse"], reasons["event time is null"], reasons["key p is null"]) == (
            1,
            1,
            1,
        )
        assert sum(reasons.values()) == 5, reasons
        assert d.rejected("counts") == []

    with drive(declared(more=True), home=tmp_path) as d:
        asked = [("a", 0), ("a", 10), ("b", 0), ("b", 10)]
        d.push(
            "known",
            [{"id": i, "p": p, "since": at(t), "until": at(t + 10)} for i, (p, t) in enumerate(asked)],
        )
        assert met(d, "later", "n") == {0: 2, 1: 1, 2: 1, 3: None}
        assert d.rows("follows") == [{"p": "a", "sum": 3}, {"p": "b", "sum": 1}]
        news(d, ("a", "", 15), ("b", "", 16))
        d.crash()
        assert d.rows("follows") == [{"p": "a", "sum": 4}, {"p": "b", "sum": 2}]
        assert met(d, "later", "n") == {0: 2, 1: 1, 2: 1, 3: None}


def refused(app: kf.App) -> str:
    with pytest.raises(BadExpression) as info, drive(app):
        pass
    return str(info.value)


def test_what_does_not_fit_is_refused_with_both_sides_named() -> None:
    def app_of() -> tuple[kf.App, Any, kf.Stream]:
        app = kf.App("fits")
        table = stream(app, "news", "p string, name string").by("p").latest().table("people")
        return app, table, stream(app, "orders", "id int, p string, name string, people_name string")

    app, table, made = app_of()
    made.enrich(table, on="id").by("id").table("t", n="count(*)")
    text = refused(app)
    assert "fits.t, enrich" in text
    assert "id int, p string" in text
    app, table, made = app_of()
    made.enrich(table, on="p").by("id").table("t", n="count(*)")
    assert "two columns would be called people_name" in refused(app)
    app, table, made = app_of()
    made.select("id").enrich(table, on="p").by("id").table("t", n="count(*)")
    assert "the stream has no column p to join people on" in refused(app)
