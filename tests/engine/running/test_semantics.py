"""What a table is after what was pushed: keys, expressions, transform, union, order, replays."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm


def at(clock: str) -> str:
    return f"2026-01-01T{clock}Z"


def test_self_verifying_keys_hold_over_batches_crashes_and_partitions() -> None:
    """K22: a key "min-max" whose rows are the integers from min to max, each once, in any order."""
    app = kf.App("k22")
    rows = app.stream("rows", kf.rows([]), schema="k string, x bigint")
    columns = {
        "least": "min(x)",
        "most": "max(x)",
        "dif": "max(x) - min(x)",
        "total": "sum(x)",
        "cnt": "count(*)",
        "mean": "avg(x)",
    }
    for partitions in (1, 2, 5):
        rows.by("k").table(f"over_{partitions}", columns, partitions=partitions)
    running = kf.fold(
        zero={"total": "0L", "cnt": "0L"},
        update={"total": "state.total + x", "cnt": "state.cnt + 1"},
        result="struct(state.total, state.cnt)",
    )
    rows.by("k").table("folded", running=running, partitions=5)

    shuffled = random.Random(22)
    ranges = [(low := shuffled.randrange(-500, 500), low + shuffled.randrange(0, 120)) for _ in range(25)]
    pairs = [(f"{low}-{high}", x) for low, high in set(ranges) for x in range(low, high + 1)]
    shuffled.shuffle(pairs)
    cuts = [0, 1, len(pairs) // 3, len(pairs) // 2, len(pairs)]
    with drive(app) as d:
        for first, last in pairwise(cuts):
            d.push("rows", [{"k": k, "x": x} for k, x in pairs[first:last]])
            if first:
                d.crash()
        for partitions in (1, 2, 5):
            found = d.rows(f"over_{partitions}")
            assert {r["k"] for r in found} == {k for k, _ in pairs}
            for r in found:
                _verify(r)
            state = d.handle.home.table(f"over_{partitions}").checkpoint / "state" / "0"
            assert sum(p.name.isdigit() for p in state.iterdir()) == partitions
        whole = {r["k"]: (r["total"], r["cnt"]) for r in d.rows("over_1")}
        assert {r["k"]: tuple(r["running"].values()) for r in d.rows("folded")} == whole
        assert d.rejected("rows") == []


def _verify(row: dict[str, Any]) -> None:
    low, high = row["least"], row["most"]
    count = high - low + 1
    assert row["k"] == f"{low}-{high}"
    assert (row["dif"], row["cnt"]) == (high - low, count)
    assert row["total"] == (low + high) * count // 2
    assert row["mean"] == pytest.approx((low + high) / 2)


def test_keys_columns_and_conditions_of_every_spelling() -> None:
    from pyspark.sql import functions as F

    app = kf.App("spelling")
    rows = app.stream(
        "rows", kf.rows([]), schema="first string, second string, x int, at timestamp", time="at"
    )
    # Names change their meaning in one step, all at once, as in SQL.
    swapped = rows.select("x", first="second", second="first")
    swapped.by("first").table("renamed", seconds="collect_set(second)")
    rows.by(first="second", second="first").table("swapped", n="count(*)")
    rows.select("upper(first) as big", "x * 2", half="x / 2").by("big").table(
        "spelled", half="sum(half)", n="count(*)"
    )
    rows.by("second", day="date(at)", hour="hour(at)").table("hours", total="sum(x)")
    rows.by(every="'all'").table("all_rows", {"n": "count(*)", "ttl": "max(x)"})
    odd = rows.where(lambda: F.col("x") % 2 == 1).select("*", y=lambda: F.col("x") + 1)
    odd.by(name=lambda: F.lower("first")).table("functions", total=lambda: F.sum("y"), n="count(*)")
    # Case makes no difference to Spark.
    rows.by("FIRST").table("upper_case", N="COUNT(*)", total="Sum(X)")
    pushed = [
        {"first": "A", "second": "p", "x": 1, "at": at("10:00:00")},
        {"first": "A", "second": "q", "x": 2, "at": at("10:59:59.999")},
        {"first": "B", "second": "p", "x": 3, "at": at("11:00:00")},
    ]
    with drive(app) as d:
        d.push("rows", pushed)
        d.push("rows", [{"first": "a", "second": "p", "x": 5, "at": "2026-01-02T10:00:00Z"}])
        assert [(r["first"], sorted(r["seconds"])) for r in d.rows("renamed")] == [
            ("p", ["A", "B", "a"]),
            ("q", ["A"]),
        ]
        assert [(r["first"], r["second"], r["n"]) for r in d.rows("swapped")] == [
            ("p", "A", 1),
            ("p", "B", 1),
            ("p", "a", 1),
            ("q", "A", 1),
        ]
        assert d.rows("spelled") == [{"big": "A", "half": 4.0, "n": 3}, {"big": "B", "half": 1.5, "n": 1}]
        assert [list(r.values())[2:] for r in d.rows("hours") if r["second"] == "p"] == [
            [10, 1],
            [11, 3],
            [10, 5],
        ]
        assert d.rows("all_rows") == [{"every": "all", "n": 4, "ttl": 5}]
        assert d.rows("functions") == [{"name": "a", "total": 8, "n": 2}, {"name": "b", "total": 4, "n": 1}]
        assert [list(r.values()) for r in d.rows("upper_case")] == [["A", 2, 3], ["B", 1, 3], ["a", 1, 5]]
        assert d.rejected("rows") == []


def test_transform_does_what_only_dataframes_can_and_keeps_what_was_rejected_before_it() -> None:
    from pyspark.sql import functions as F

    app = kf.App("transformed")
    rows = app.stream("rows", kf.rows([]), schema="k string, words string, x string")
    words = (
        rows.where("cast(x as int) > 0")
        .transform(lambda df: df.select("k", "x", F.explode(F.split("words", " ")).alias("word")))
        .where("word <> ''")
        .select("*", n="cast(word as int)")
    )
    words.by("k").table("numbers", total="sum(n)", rows="count(*)")
    words.by("k").table("last", word=kf.fold(zero={"w": "''"}, update={"w": "word"}))
    with drive(app) as d:
        d.push(
            "rows",
            [
                {"k": "a", "words": "1 2 3", "x": "1"},
                {"k": "a", "words": "4 five 6", "x": "1"},
                {"k": "a", "words": "7", "x": "0"},
                {"k": "a", "words": "8", "x": "oops"},
                "{",
                {"words": "9 10", "x": "1"},
            ],
        )
        d.crash()
        assert d.rows("numbers") == [{"k": "a", "total": 16, "rows": 5}]
        assert d.rows("last") == [{"k": "a", "word": "6"}]
        found = sorted((r["reason"].split("]")[0].strip("["), r["raw"]) for r in d.rejected("numbers"))
        assert [reason for reason, _ in found] == [
            "CAST_INVALID_INPUT",
            "CAST_INVALID_INPUT",
            "does not parse",
            "key k is null",
            "key k is null",
        ]
        assert sum('"word":"five"' in raw for _, raw in found) == 1
        assert sum('"x":"oops"' in raw for _, raw in found) == 1
        assert len(d.rejected("rows")) == 5
        d.push("rows", [{"k": "b", "words": "1", "x": "1"}])
        assert d.rows("numbers", where={"k": "b"}) == [{"k": "b", "total": 1, "rows": 1}]


def test_union_is_by_name_and_each_branch_has_its_own_conditions() -> None:
    app = kf.App("united")
    web = app.stream("web", kf.rows([]), schema="k string, x int, at timestamp", time="at")
    shop = app.stream("shop", kf.rows([]), schema="amount string, name string, seen timestamp", time="seen")
    phone = app.stream("phone", kf.rows([]), schema="k string, x int")
    both = web.where("x > 0").union(
        shop.select(x="cast(amount as int)", k="name", at="seen"),
        phone.select("k", "x", at="timestamp'2026-01-01'"),
    )
    both.where("k <> 'no'").by("k").table("sums", n="count(*)", total="sum(x)", latest="max(at)")
    both.by("k").table(
        "order", xs=kf.fold(zero={"xs": "array(0)"}, update={"xs": "concat(state.xs, array(x))"})
    )
    with drive(app) as d:
        d.push(
            "web", [{"k": "a", "x": 1, "at": at("12:00:00")}, {"k": "a", "x": -1, "at": at("13:00:00")}, "{"]
        )
        d.push(
            "shop",
            [
                {"name": "a", "amount": "-2", "seen": at("11:00:00")},
                {"name": "a", "amount": "many", "seen": at("11:00:00")},
                {"name": "no", "amount": "1"},
            ],
        )
        d.push("phone", [{"k": "a", "x": 3}, {"x": 4}])
        d.crash()
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        assert d.rows("sums") == [{"k": "a", "n": 3, "total": 2, "latest": noon}]
        assert [r["xs"] for r in d.rows("order", where={"k": "a"})] == [[0, 1, -2, 3]]
        # A condition that is null for a null key leaves the row out; without one the row is rejected.
        assert sorted(r["reason"].split(" ")[0] for r in d.rejected("sums")) == [
            "[CAST_INVALID_INPUT]",
            "does",
        ]
        d.restart()
        assert sorted(r["reason"].split(" ")[0] for r in d.rejected("order")) == [
            "[CAST_INVALID_INPUT]",
            "does",
            "key",
        ]


def test_folds_see_rows_by_event_time_then_arrival_within_what_has_arrived() -> None:
    app = kf.App("ordered")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, at timestamp", time="at")
    plain = app.stream("plain", kf.rows([]), schema="k string, x int")
    xs = kf.fold(zero={"xs": "cast(array() as array<int>)"}, update={"xs": "concat(state.xs, array(x))"})
    rows.by("k").table("by_time", xs=xs, n="count(*)")
    rows.select("k", "x").by("k").table("without", xs=xs)
    plain.by("k").table("by_arrival", xs=xs, distinct="count(distinct x)")
    with drive(app) as d:
        clocks = ["12:00:03", "12:00:01", "12:00:02", "12:00:01", "12:00:03"]
        d.push("rows", [{"k": "a", "x": n, "at": at(c)} for n, c in enumerate(clocks)])
        d.push("rows", [{"k": "a", "x": 9, "at": at("11:00:00")}])
        d.push("plain", [{"k": "a", "x": x} for x in (3, 1, 2, 1)])
        d.push("plain", [{"k": "a", "x": x} for x in (3, 4)])
        for table in ("by_time", "without"):
            assert d.rows(table)[0]["xs"] == [1, 3, 2, 0, 4, 9]
        assert d.rows("by_arrival") == [{"k": "a", "xs": [3, 1, 2, 1, 3, 4], "distinct": 4}]
        d.crash()
        assert d.rows("by_arrival") == [{"k": "a", "xs": [3, 1, 2, 1, 3, 4], "distinct": 4}]


def test_a_fold_sees_the_row_the_key_and_its_whole_state() -> None:
    app = kf.App("folds")
    rows = app.stream("rows", kf.rows([]), schema="k string, temp double, state string, other int")
    rows.select("*", fahrenheit="temp * 9 / 5 + 32").by("k").table(
        "smooth",
        n="count(*)",
        ema=kf.fold(
            zero={"v": "cast(null as double)"},
            update={"v": "coalesce(0.5 * state.v + 0.5 * temp, temp)"},
            result="state.v",
        ),
        warm=kf.fold(
            # Fields see one another as they were before the row.
            zero={"now": "0D", "before": "0D"},
            update={"before": "state.now", "now": "fahrenheit"},
            result="named_struct('key', k, 'rise', state.now - state.before, 'all', state)",
        ),
        others=kf.fold(
            zero={"n": "0L"},
            update={"n": "state.n + other"},
            merge={"n": "state.n + other.n"},
            result="state.n",
        ),
    )
    rows.by("k").table(
        "merged",
        peak=kf.fold(
            zero={"v": "cast(null as double)"},
            update={"v": "greatest(state.v, temp)"},
            merge={"v": "greatest(state.v, other.v)"},
        ),
    )
    with drive(app) as d:
        d.push("rows", [{"k": "a", "temp": 10.0, "other": 1}])
        d.push("rows", [{"k": "a", "temp": 20.0, "other": 2}, {"k": "a", "temp": 30.0, "other": 3}])
        found = d.rows("smooth")
        assert found == [
            {
                "k": "a",
                "n": 3,
                "ema": 22.5,
                "warm": {"key": "a", "rise": 18.0, "all": {"now": 86.0, "before": 68.0}},
                "others": 6,
            }
        ]
        assert d.rows("merged") == [{"k": "a", "peak": 30.0}]
        assert d.rejected("rows") == []


@pytest.mark.parametrize(
    "clock", ["now ( )", "unix_timestamp()", "CURDATE()", "localtimestamp()", "current_date"]
)
def test_every_clock_is_known_alone(clock: str) -> None:
    app = kf.App("clock")
    app.stream("rows", kf.rows([]), schema="k string").by("k").table("seen", at=f"max({clock})")
    with drive(app):
        pass


def test_the_clock_of_an_expression_is_the_batchs_own() -> None:
    app = kf.App("clock")
    rows = app.stream("rows", kf.rows([]), schema="k string, at timestamp")
    rows.select("*", arrived="current_timestamp()").by("k").table(
        "seen",
        first="min(arrived)",
        last="max(now ( ))",
        unix="max(unix_timestamp())",
        day="max(current_date)",
        days="max(curdate())",
        local="max(localtimestamp())",
        past="count(*) filter (where at < current_timestamp())",
        fold=kf.fold(zero={"at": "cast(null as timestamp)"}, update={"at": "current_timestamp()"}),
    )
    with drive(app) as d:
        before = datetime.now(UTC)
        d.push("rows", [{"k": "a", "at": "2026-01-01T00:00:00Z"}, {"k": "a", "at": "2999-01-01T00:00:00Z"}])
        after = datetime.now(UTC)
        (row,) = d.rows("seen")
        assert before.replace(microsecond=0) <= row["first"] <= after
        assert row["first"] == row["last"] == row["fold"]
        assert row["local"].replace(tzinfo=UTC) == row["first"]
        assert row["day"] == row["days"] == row["first"].date()
        assert row["unix"] == int(row["first"].timestamp())
        assert row["past"] == 1
        # The replay computes the state again, from which the next batch continues, and publishes nothing.
        d.crash()
        d.push("rows", [{"k": "a", "at": "2026-01-01T00:00:00Z"}])
        (later,) = d.rows("seen")
        assert later["first"] == row["first"], "a replay has the time of the batch, not of the replay"
        assert later["last"] > row["last"]


def test_a_table_may_come_and_go_between_starts(tmp_path: Any) -> None:
    def app(*tables: str) -> kf.App:
        app = kf.App("grows")
        rows = app.stream("rows", kf.rows([]), schema="k string, x int")
        for name in tables:
            rows.by("k").table(name, n="count(*)")
        return app

    def names(d: Driver) -> list[str]:
        return [t.name for t in d.handle.spec.tables]

    with drive(app("one"), home=tmp_path) as d:
        d.push("rows", [{"k": "a"}])
    with drive(app("one", "two"), home=tmp_path) as d:
        # A new table reads what the source still has.
        assert names(d) == ["one", "two"]
        assert d.rows("one") == d.rows("two") == [{"k": "a", "n": 1}]
    with drive(app("two"), home=tmp_path) as d:
        d.push("rows", [{"k": "a"}])
    with drive(app("one", "two"), home=tmp_path) as d:
        assert d.rows("one") == d.rows("two") == [{"k": "a", "n": 2}]
