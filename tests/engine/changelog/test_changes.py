"""Tables of a table's changes: rows that change or are deleted upstream are retracted from aggregates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

Row = dict[str, Any]
ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SCHEMA = "id string, g string, x int, d decimal(10,2), f double"


def items_of(name: str, schema: str = SCHEMA) -> tuple[kf.App, kf.Table]:
    """A table that holds the newest row of each id, so that pushing an id again replaces its row."""
    app = kf.App(name)
    rows = app.stream("rows", kf.rows([]), schema=schema)
    return app, rows.by("id").latest().table("items")


def item(id: str, g: str | None, x: int | None = None, d: str | None = None, f: float | None = None) -> Row:
    return {"id": id, "g": g, "x": x, "d": None if d is None else Decimal(d), "f": f}


def by(rows: Iterable[Row], *keys: str) -> dict[Any, Row]:
    """Rows by their key; a key of one column is that column's value."""
    return {
        tuple(r[k] for k in keys) if len(keys) > 1 else r[keys[0]]: {
            n: v for n, v in r.items() if n not in keys
        }
        for r in rows
    }


def values(d: Driver, table: str, key: str = "g") -> dict[Any, tuple[Any, ...]]:
    return {k: tuple(row.values()) for k, row in by(d.rows(table), key).items()}


def ops(d: Driver, table: str, key: str = "g") -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for change in d.changes(table):
        found.setdefault(change[key], []).append(change["_op"])
    return found


# What aggregates make of retracted rows


def test_counts_sums_and_means_give_back_what_changes() -> None:
    app, items = items_of("sums")
    rows = items.changes()
    rows.by("g").table("counts", n="count(*)", known="count(x)", both="count(x, d)", big="count_if(x > 5)")
    rows.by("g").table(
        "sums", total="sum(x)", money="sum(d)", real="sum(f)", big="sum(x) filter (where x > 5)"
    )
    rows.by("g").table("means", x="avg(x)", d="avg(d)", f="avg(f)", big="avg(x) filter (where x > 5)")
    rows.by("g").table("mixed", span="sum(x) / count(*) + 1", n="count(*) * 10")
    with drive(app) as d:
        d.push("rows", [item("1", "a", 7, "1.10", 0.5), item("2", "a", 2, "2.25"), item("3", "b", 9)])
        assert values(d, "counts") == {"a": (2, 2, 2, 1), "b": (1, 1, 0, 1)}
        assert values(d, "sums") == {"a": (9, Decimal("3.35"), 0.5, 7), "b": (9, None, None, 9)}
        assert values(d, "means") == {
            "a": (4.5, Decimal("1.675000"), 0.5, 7.0),
            "b": (9.0, None, None, 9.0),
        }
        assert values(d, "mixed") == {"a": (5.5, 20), "b": (10.0, 10)}
        # A value that goes, one that comes, and one that moves to another group: all in one batch.
        d.push("rows", [item("1", "a", None, None, None), item("3", "a", 1, "0.01", 1.5), item("4", "c", 6)])
        assert values(d, "counts") == {"a": (3, 2, 2, 0), "c": (1, 1, 0, 1)}
        assert values(d, "sums") == {"a": (3, Decimal("2.26"), 1.5, None), "c": (6, None, None, 6)}
        assert values(d, "means") == {"a": (1.5, Decimal("1.130000"), 1.5, None), "c": (6.0, None, None, 6.0)}
        assert values(d, "mixed") == {"a": (2.0, 30), "c": (7.0, 10)}
        assert ops(d, "counts") == {
            "a": ["upsert", "upsert"],
            "b": ["upsert", "delete"],
            "c": ["upsert"],
        }
        # The same rows again change nothing; a group whose values are all null has null sums.
        d.push("rows", [item("2", "a"), item("3", "a"), item("4", "c", 6)])
        assert values(d, "counts") == {"a": (3, 0, 0, 0), "c": (1, 1, 0, 1)}
        assert values(d, "sums") == {"a": (None, None, None, None), "c": (6, None, None, 6)}
        assert values(d, "means") == {"a": (None, None, None, None), "c": (6.0, None, None, 6.0)}
        d.push("rows", [item(i, "z", 1, "1.00", 1.0) for i in "1234"])
        for table in ("counts", "sums", "means", "mixed"):
            assert list(values(d, table)) == ["z"], table
            assert d.rejected(table) == []


def test_numbers_at_their_ends_can_be_taken_back() -> None:
    schema = "id string, g string, b tinyint, i int, l bigint, s float, d decimal(38,2), f double"
    app, items = items_of("ends", schema)
    columns = {c: f"sum({c})" for c in "bilsdf"}
    items.changes().by("g").table("sums", {**columns, "mean": "avg(d)", "n": "count(*)"})
    items.changes().by("g").table("means", {c: f"avg({c})" for c in "bilsf"})
    big = {"b": -128, "i": -(2**31), "l": 2**62, "s": 3e9, "d": Decimal(10) ** 31, "f": 1.0}
    one = {"b": 1, "i": 1, "l": 1, "s": 1.0, "d": Decimal(1), "f": 2.0}
    with drive(app) as d:
        d.push("rows", [{"id": "1", "g": "a", **big}, {"id": "2", "g": "a", **one}])
        d.push("rows", [{"id": "1", "g": "b", **big}])
        found = values(d, "sums")
        assert found["a"] == (1, 1, 1, pytest.approx(1.0), Decimal(1), 2.0, Decimal(1), 1)
        assert found["b"][:3] == (-128, -(2**31), 2**62)
        assert values(d, "means")["a"] == (1.0, 1.0, 1.0, 1.0, 2.0)


def test_a_number_that_is_none_or_endless_leaves_no_trace_when_it_is_taken_back() -> None:
    app, items = items_of("nan", "id string, g string, f string")
    real = items.changes().select("g", f="cast(f as double)")
    real.by("g").table("real", total="sum(f)", mean="avg(f)", n="count(f)")
    with drive(app) as d:
        given = {"1": "NaN", "2": "Infinity", "3": "1.5", "4": "-Infinity"}
        d.push("rows", [{"id": i, "g": "a", "f": f} for i, f in given.items()])
        assert str(values(d, "real")["a"]) == "(nan, nan, 4)"
        d.push("rows", [{"id": "1", "g": "b", "f": "NaN"}])
        assert str(values(d, "real")["a"]) == "(nan, nan, 3)", "both infinities"
        d.push("rows", [{"id": "4", "g": "b", "f": "2"}])
        assert values(d, "real")["a"] == (float("inf"), float("inf"), 2)
        d.push("rows", [{"id": "2", "g": "b", "f": "3"}])
        assert values(d, "real")["a"] == (1.5, 1.5, 1)


def test_a_sum_that_is_too_large_for_its_type_is_there_again_when_it_is_not() -> None:
    app, items = items_of("large", "id string, g string, x bigint")
    items.changes().by("g").table("sums", total="sum(x)", n="count(*)")
    items.changes().by("g").table("tried", total="try_sum(x)", n="count(*)")
    with drive(app) as d:
        d.push("rows", [{"id": i, "g": "a", "x": 2**62} for i in "123"])
        assert values(d, "tried") == {"a": (None, 3)}
        assert d.rows("sums") == []
        assert "overflow" in d.rejected("sums")[0]["reason"].lower()
        d.push("rows", [{"id": i, "g": "b", "x": -(2**63)} for i in "12"])
        assert values(d, "sums") == {"a": (2**62, 1)}
        assert values(d, "tried") == {"a": (2**62, 1), "b": (None, 2)}
        d.push("rows", [{"id": "1", "g": "a", "x": 1}])
        assert values(d, "sums") == values(d, "tried") == {"a": (2**62 + 1, 2), "b": (-(2**63), 1)}


def test_a_row_whose_sum_can_not_be_shown_can_still_be_taken_back() -> None:
    app, items = items_of("overflow", "id string, g string, d decimal(38,0)")
    rows = items.changes()
    # The mean of 38 digits has four more, for which there is no room.
    rows.by("g").table("means", mean="avg(d)", n="count(*)")
    rows.by("g").table("maxima", mean="avg(d)", most="max(d)", n="count(*)")
    with drive(app) as d:
        d.push(
            "rows", [{"id": "1", "g": "a", "d": Decimal(1)}, {"id": "2", "g": "b", "d": Decimal(10) ** 37}]
        )
        d.push("rows", [{"id": "3", "g": "a", "d": Decimal(10) ** 37}])
        for table in ("means", "maxima"):
            assert len(d.rejected(table)) == 2, table
            assert d.rows(table) == [], "what it was is no longer true, and what it is can't be shown"
        d.push("rows", [{"id": "3", "g": "c", "d": Decimal(3)}, {"id": "2", "g": "c", "d": Decimal(5)}])
        assert values(d, "means") == {"a": (Decimal("1.0000"), 1), "c": (Decimal("4.0000"), 2)}
        assert values(d, "maxima") == {
            "a": (Decimal("1.0000"), Decimal(1), 1),
            "c": (Decimal("4.0000"), Decimal(5), 2),
        }


PRODUCT = kf.fold(
    zero={"n": "0L", "p": "1D"},
    update={"n": "state.n + 1", "p": "state.p * x"},
    retract={"n": "state.n - 1", "p": "state.p / x"},
    result="if(state.n = 0, null, state.p)",
)


def test_what_can_not_give_back_is_folded_anew_from_the_rows_that_are_left() -> None:
    app, items = items_of("anew")
    rows = items.changes()
    rows.by("g").table("extremes", least="min(x)", most="max(x)", first="min_by(id, x)", n="count(*)")
    rows.by("g").table(
        "sets",
        xs="array_sort(collect_list(x))",
        different="count(distinct x)",
        about="approx_count_distinct(x)",
    )
    rows.by("g").table("spread", spread="stddev(x)", middle="percentile(x, 0.5)", any="bool_or(x > 5)")
    rows.by("g").table("product", p=PRODUCT)
    rows.by("g").table("product_and_most", p=PRODUCT, most="max(x)", total="sum(x)")
    held: dict[str, Row] = {}

    def push(*given: Row) -> None:
        d.push("rows", given)
        held.update({r["id"]: r for r in given})
        groups = {g: [r for r in held.values() if r["g"] == g] for g in {r["g"] for r in held.values()}}
        xs = {g: sorted(r["x"] for r in rows) for g, rows in groups.items()}
        assert values(d, "extremes") == {
            g: (v[0], v[-1], next(r["id"] for r in groups[g] if r["x"] == v[0]), len(v))
            for g, v in xs.items()
        }
        assert values(d, "sets") == {g: (v, len(set(v)), len(set(v))) for g, v in xs.items()}
        assert values(d, "spread") == {
            g: (
                pytest.approx(stdev(v)) if len(v) > 1 else None,
                (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2,
                v[-1] > 5,
            )
            for g, v in xs.items()
        }
        product = {g: v[0] * (v[1] if v[1:] else 1) * (v[2] if v[2:] else 1) for g, v in xs.items()}
        assert values(d, "product") == {g: (p,) for g, p in product.items()}
        assert values(d, "product_and_most") == {g: (p, xs[g][-1], sum(xs[g])) for g, p in product.items()}

    with drive(app) as d:
        push(item("1", "a", 4), item("2", "a", 8), item("3", "a", 2), item("4", "b", 8))
        push(item("2", "a", 1))
        d.crash()
        push(item("3", "b", 16), item("1", "b", 32))
        d.restart()
        push(item("2", "c", 64))
        assert ops(d, "extremes")["a"] == ["upsert", "upsert", "upsert", "delete"]
        push(item("2", "a", 2))
        for table in ("extremes", "sets", "spread", "product", "product_and_most"):
            assert d.rejected(table) == [], table


# Steps between a table and what is folded of it


def test_rows_that_are_taken_back_pass_the_same_steps_as_when_they_came() -> None:
    app, items = items_of("steps")
    more = app.stream("more", kf.rows([]), schema="id string, g string, x int")
    shown = items.changes().where("x > 0").select("id", "g", x="x * 10")
    shown.by(g="upper(g)").table("scaled", n="count(*)", total="sum(x)")
    shown.union(more).by("g").table("both", n="count(*)", total="sum(x)", most="max(x)")
    # The same table twice: all rows, and those of one group once more.
    rows = items.changes().select("id", "g", "x")
    rows.union(rows.where("g = 'b'")).by("g").table("twice", n="count(*)", total="sum(x)")
    # Not every row can be computed: those that can't are rejected once, and need not be retracted.
    items.changes().by("g").table("inverse", total="sum(10 div x)")
    with drive(app) as d:
        d.push("rows", [item("1", "a", 1), item("2", "b", 2), item("3", "b", -3), item("4", "c", 0)])
        d.push("more", [{"id": "m", "g": "b", "x": 7}])
        assert values(d, "scaled") == {"A": (1, 10), "B": (1, 20)}
        assert values(d, "both") == {"a": (1, 10, 10), "b": (2, 27, 20)}
        assert values(d, "twice") == {"a": (1, 1), "b": (4, -2), "c": (1, 0)}
        assert values(d, "inverse") == {"a": (10,), "b": (2,)}
        d.push("rows", [item("1", "b", 4), item("2", "b", -2), item("4", "c", 5)])
        assert values(d, "scaled") == {"B": (1, 40), "C": (1, 50)}
        assert values(d, "both") == {"b": (2, 47, 40), "c": (1, 50, 50)}
        assert values(d, "twice") == {"b": (6, -2), "c": (1, 5)}
        assert values(d, "inverse") == {"b": (-6,), "c": (2,)}
        assert [len(d.rejected(t)) for t in ("scaled", "both", "twice", "inverse")] == [0, 0, 0, 1]


def test_a_table_of_a_table_of_a_table_follows_all_of_them() -> None:
    """Counts of counts, and the mean per category of the highest bid per auction, with its spread."""
    app = kf.App("thrice")
    bids = app.stream("bids", kf.rows([]), schema="auction int, category string, price int")
    highest = bids.by("auction", "category").table("highest", price="max(price)", bids="count(*)")
    means = highest.changes().by("category").table("means", mean="avg(price)", auctions="count(*)")
    counts = highest.changes().by("bids").table("counts", auctions="count(*)")
    counts.changes().by("auctions").table("counts_of_counts", n="count(*)", bids="collect_list(bids)")
    means.changes().by(all="'all'").table("over_all", best="max_by(category, mean)", n="sum(auctions)")
    with drive(app) as d:
        d.push("bids", [{"auction": a, "category": c, "price": p} for a, c, p in [(1, "x", 5), (2, "x", 9)]])
        d.push("bids", [{"auction": a, "category": c, "price": p} for a, c, p in [(1, "x", 7), (3, "y", 6)]])
        assert values(d, "means", "category") == {"x": (8.0, 2), "y": (6.0, 1)}
        assert values(d, "counts", "bids") == {1: (2,), 2: (1,)}
        assert values(d, "counts_of_counts", "auctions") == {1: (1, [2]), 2: (1, [1])}
        assert values(d, "over_all", "all") == {"all": ("x", 3)}
        d.crash()
        d.push(
            "bids", [{"auction": 2, "category": "x", "price": 1}, {"auction": 3, "category": "y", "price": 9}]
        )
        assert values(d, "means", "category") == {"x": (8.0, 2), "y": (9.0, 1)}
        assert values(d, "counts", "bids") == {2: (3,)}
        assert values(d, "counts_of_counts", "auctions") == {3: (1, [2])}
        assert values(d, "over_all", "all") == {"all": ("y", 3)}


def test_changes_as_events_say_what_happened_and_what_was_before() -> None:
    app = kf.App("events")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t")
    sums = rows.by("k").table("sums", total="sum(x)", ttl="10 seconds")
    windows = rows.by("k").tumbling("10 seconds").table("windows", total="sum(x)", keep="5 seconds")
    was, now = (f"coalesce(cast({c} as string), 'none')" for c in ("previous.total", "total"))
    told = f"concat_ws(' ', _op, {was}, {now})"
    sums.changes(previous=True).by("k").table("log", said=f"collect_list({told})")
    windows.changes(previous=True).by("k").table("window_log", said=f"collect_list({told})")
    with drive(app) as d:
        for at, x in ((0, 1), (3, 2), (4, None)):
            d.push("rows", [{"k": "a", "x": x, "t": ZERO + at * SECOND}])
        d.advance("rows", ZERO + 30 * SECOND)
        d.push("rows", [{"k": "a", "x": 5, "t": ZERO + 30 * SECOND}])
        first = ["upsert none 1", "upsert 1 3", "upsert 3 3"]
        (row,) = d.rows("log")
        assert row["said"] == [*first, "delete 3 none", "upsert none 5"]
        (row,) = d.rows("window_log")
        assert sorted(row["said"]) == sorted([*first, "final 3 3", "delete 3 none", "upsert none 5"])


# Upstream tables of every kind

KINDS: dict[str, Callable[[Any], kf.Table]] = {
    "running": lambda keyed: keyed.table("up", n="count(*)", total="sum(x)", ttl="20 seconds"),
    "newest": lambda keyed: keyed.latest().table("up", total="x", n="1", ttl="20 seconds"),
    "first": lambda keyed: keyed.top(2, by="x desc").table("up", total="x", n="1"),
    "tumbling": lambda keyed: keyed.tumbling("10 seconds").table("up", n="count(*)", total="sum(x)"),
    "kept": lambda keyed: keyed.tumbling("10 seconds").table(
        "up", n="count(*)", total="sum(x)", keep="7 seconds"
    ),
    "final": lambda keyed: keyed.sliding("10 seconds", every="5 seconds").table(
        "up", n="count(*)", total="sum(x)", emit="final", keep="15 seconds"
    ),
    "session": lambda keyed: keyed.session("6 seconds").table("up", n="count(*)", total="sum(x)"),
    "kept_session": lambda keyed: keyed.session("6 seconds").table(
        "up", n="count(*)", total="sum(x)", keep="10 seconds"
    ),
    "last": lambda keyed: keyed.last(2).table("up", n="count(*)", total="sum(x)"),
    "rolling": lambda keyed: keyed.rolling("10 seconds").table("up", n="count(*)", total="sum(x)"),
}
BATCHES: list[list[tuple[str, float, int | None]]] = [
    [("a", 0, 1), ("b", 1, 2), ("c", 2, None)],
    [("a", 8, 4), ("b", 5, 8), ("a", 4, 3)],
    [("b", 12, 5), ("a", 7, 9), ("c", 9, 1)],
    [("a", 22, 7)],
    [("b", 41, 6), ("a", 40, 2)],
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_folded_of_a_table_is_the_fold_of_its_rows(kind: str) -> None:
    app = kf.App(kind)
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t", late="5 seconds")
    up = KINDS[kind](rows.by("k"))
    up.changes().by(odd="total % 2 = 1").table("sums", rows="count(*)", n="sum(n)", total="sum(total)")
    up.changes().by(odd="total % 2 = 1").table("most", most="max(total)", n="count(distinct n)")

    def check() -> None:
        there = [r for r in d.rows("up") if r["total"] is not None]
        odd = {o: [r for r in there if (r["total"] % 2 == 1) == o] for o in (False, True)}
        assert values(d, "sums", "odd") == {
            o: (len(rs), sum(r["n"] for r in rs), sum(r["total"] for r in rs)) for o, rs in odd.items() if rs
        }
        assert values(d, "most", "odd") == {
            o: (max(r["total"] for r in rs), len({r["n"] for r in rs})) for o, rs in odd.items() if rs
        }

    with drive(app) as d:
        for number, batch in enumerate(BATCHES):
            d.push("rows", [{"k": k, "t": ZERO + t * SECOND, "x": x} for k, t, x in batch])
            if number == 2:
                d.crash()
            check()
        d.advance("rows", ZERO + 100 * SECOND)
        check()


def test_a_reader_that_comes_later_takes_back_what_it_began_with(tmp_path: Path) -> None:
    def declared(*readers: str) -> kf.App:
        app = kf.App("later")
        rows = app.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t")
        windows = rows.by("k").tumbling("10 seconds").table("windows", total="sum(x)", keep="20 seconds")
        for reader in readers:
            windows.changes().by(all="1").table(reader, n="count(*)", total="sum(total)", most="max(total)")
            # Whole rows, which would not be found if anything of them was told in another way.
            windows.changes().by(all="1").top(3, by="total").table(f"{reader}_rows")
            windows.changes().where("_op = 'final'").by(all="1").table(f"{reader}_closed", n="count(*)")
        return app

    def row(k: str, at: float, x: int) -> Row:
        return {"k": k, "t": ZERO + at * SECOND, "x": x}

    with drive(declared(), home=tmp_path) as d:
        d.push("rows", [row("a", 1, 1), row("b", 2, 2), row("c", 15, 8)])
    with drive(declared("log"), home=tmp_path) as d:
        assert values(d, "log", "all") == {1: (3, 11, 8)}
        assert values(d, "log_closed", "all") == {1: (2,)}
        d.push("rows", [row("c", 16, 1), row("d", 31, 5)])
        # The windows of a and b had closed before the reader began, and go.
        assert values(d, "log", "all") == {1: (2, 14, 9)}
        assert [(r["rank"], r["k"], r["total"]) for r in d.rows("log_rows")] == [(1, "d", 5), (2, "c", 9)]
        assert values(d, "log_closed", "all") == {1: (1,)}
        assert d.rejected("log") == d.rejected("log_rows") == []
