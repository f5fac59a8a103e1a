"""Joins of two streams: their columns and names, rejected and late rows, and cases of other engines.

Oracle cases K, S and F are of `shared/oracles/semantics.md`: each docstring says how it was translated. Times
count from the start of 2026; the watermark of a join is that of the stream which is behind.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadExpression
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, MILLISECOND = timedelta(seconds=1), timedelta(milliseconds=1)
SCHEMA = "k string, v string, t timestamp"


def sides(app: kf.App, late: Any = 0, schema: str = SCHEMA) -> tuple[kf.Stream, kf.Stream]:
    return tuple(app.stream(n, kf.rows([]), schema=schema, time="t", late=late) for n in ("l", "r"))  # type: ignore[return-value]


def whole(stream: kf.Stream, name: str = "pairs", *columns: str) -> None:
    """A table of all rows of a stream."""
    picked = ", ".join(columns or ("l_v", "r_v"))
    stream.by(all="'all'").table(name, rows=f"collect_list(struct({picked}))")


def push(d: Driver, stream: str, *found: tuple[Any, Any, float], unit: timedelta = SECOND) -> None:
    """Rows (key, value, time) as one batch."""
    d.push(stream, [{"k": k, "v": v, "t": ZERO + t * unit} for k, v, t in found])


def advance(d: Driver, to: float, unit: timedelta = SECOND) -> None:
    for stream in ("l", "r"):
        d.advance(stream, ZERO + to * unit)


def pairs(d: Driver, name: str = "pairs") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for row in d.rows(name) for r in row["rows"])


def of(*rows: tuple[Any, ...] | str) -> Counter[tuple[Any, ...]]:
    """Expected rows; "A-b" is ("A", "b"), and "A-" has nothing on the right."""
    return Counter(tuple(v or None for v in r.split("-")) if isinstance(r, str) else r for r in rows)


def keyed(text: str) -> list[tuple[Any, Any, float]]:
    """Rows of one key, marked with _, or of none: "_A@3 E@16"."""
    found = (re.fullmatch(r"(_?)(\w?)@(\d+)", part) for part in text.split())
    return [(m[1] or None, m[2] or None, int(m[3])) for m in found if m]


def test_k15_k16_an_interval_join_of_one_key() -> None:
    """K15, K16. Null values produce nothing: `where` leaves them out. A window of a millisecond shows the
    joined row's time. Kafka emits per record; here all rows of a side come in one batch. A row without a
    key comes alone at once.
    """
    app = kf.App("k15")
    left, right = (s.where("v is not null") for s in sides(app))
    for how in ("inner", "left", "full"):
        joined = left.join(right, on="k", within="10 seconds", how=how)  # type: ignore[arg-type]
        by_pair = joined.by(pair="concat(coalesce(l_v, ''), '-', coalesce(r_v, ''))")
        by_pair.tumbling("1 millisecond").table(how, n="count(*)")
    ms = {"unit": MILLISECOND}
    with drive(app) as d:
        push(d, "l", *keyed("_@1 _A@3 _B@5 _@7 _C@9 _@12 _D@15 E@16"), **ms)
        push(d, "r", *keyed("_@2 _a@4 _b@6 _@8 _c@10 _@11 _@13 _d@14 e@17"), **ms)
        inner = {f"{a}-{b}": max(s, t) for a, s in zip("ABCD", (3, 5, 9, 15), strict=True)
                 for b, t in zip("abcd", (4, 6, 10, 14), strict=True)}  # fmt: skip
        outer = {how: inner | ({} if how == "inner" else {"E-": 16}) for how in ("inner", "left", "full")}
        outer["full"]["-e"] = 17
        for how, expected in outer.items():
            found = [(r["pair"], (r["window_start"] - ZERO) / MILLISECOND, r["n"]) for r in d.rows(how)]
            assert sorted(found) == sorted((p, t, 1) for p, t in expected.items()), how
            assert d.late(how) == []


def test_k17_a_left_row_comes_alone_when_time_has_passed() -> None:
    """K17. The record @401 comes on both sides, since the side that is behind holds the watermark."""
    app = kf.App("k17")
    left, right = sides(app)
    whole(left.join(right, on="k", within="100 milliseconds", how="left"))
    with drive(app) as d:
        push(d, "l", ("0", "A0", 1), ("1", "A1", 2), ("0", "A0-0", 3), unit=MILLISECOND)
        push(d, "r", ("1", "a1", 3), unit=MILLISECOND)
        assert pairs(d) == of("A1-a1")
        push(d, "l", ("9", "z", 401), unit=MILLISECOND)
        assert pairs(d) == of("A1-a1")
        push(d, "r", ("9", "z", 401), unit=MILLISECOND)
        assert pairs(d) == of("A1-a1", "z-z", ("A0", None), ("A0-0", None))


def numbers(d: Driver, stream: str, *values: int) -> None:
    """Spark's suites: of a value v key and time are v, and the left has 2 v, the right 3 v."""
    d.push(stream, [{"k": v, "v": v * (2 if stream == "l" else 3), "t": ZERO + v * SECOND} for v in values])


def windowed(app: kf.App, late: tuple[str, str], *hows: str) -> None:
    schema = "k int, v int, t timestamp"
    left, right = (
        app.stream(name, kf.rows([]), schema=schema, time="t", late=allowed).select(
            "k", "v", w="10 * (unix_seconds(t) div 10 + 1)"
        )
        for name, allowed in zip("lr", late, strict=True)
    )
    for how in hows:
        joined = left.join(right, on=["k", "w"], within="9 seconds", how=how)  # type: ignore[arg-type]
        whole(joined, how, "k", f"w - {int(ZERO.timestamp())}L w", "l_v", "r_v")


def test_s9_a_join_on_a_key_and_a_window() -> None:
    """S9. The window's end is a column of both; its rows are at most 9 whole seconds apart. What Spark drops
    in silence is a late row. Spark's right has no watermark: here it has no lateness.
    """
    app = kf.App("s9")
    windowed(app, ("10 seconds", "0 seconds"), "inner")
    with drive(app) as d:
        numbers(d, "l", 1)
        assert pairs(d, "inner") == of()
        numbers(d, "r", 1)
        assert pairs(d, "inner") == of((1, 10, 2, 3))
        d.restart()
        numbers(d, "l", 25)
        numbers(d, "r", 25)
        assert pairs(d, "inner") == of((1, 10, 2, 3), (25, 30, 50, 75))
        d.restart()
        numbers(d, "r", 1)
        numbers(d, "l", 5)
        assert pairs(d, "inner") == of((1, 10, 2, 3), (25, 30, 50, 75))
        assert [(r["stream"], json.loads(r["raw"])["k"]) for r in d.late("inner")] == [("r", 1), ("l", 5)]


def test_s11_outer_joins_on_a_window() -> None:
    """S11. Spark knows that a window is over when its end has passed; keyfold goes by `within`, so that outer
    rows come up to that much later, and event time is moved on for them.
    """
    app = kf.App("s11")
    windowed(app, ("10 seconds", "10 seconds"), "left", "right")
    met = [(3, 10, 6, 9), (4, 10, 8, 12), (5, 10, 10, 15)]
    with drive(app) as d:
        numbers(d, "l", 1, 2, 3, 4, 5)
        numbers(d, "r", 3, 4, 5, 6, 7)
        assert pairs(d, "left") == pairs(d, "right") == of(*met)
        numbers(d, "l", 21, 22)
        numbers(d, "r", 22)
        advance(d, 40)
        met.append((22, 30, 44, 66))
        assert pairs(d, "left") == of(*met, (1, 10, 2, None), (2, 10, 4, None))
        assert pairs(d, "right") == of(*met, (6, 10, None, 18), (7, 10, None, 21))


def test_s13_a_full_outer_join_of_a_range() -> None:
    """S13. The right is at most 5 seconds newer and never older, with 10 seconds of lateness. The two rows of
    state at the end are those that come out when time moves on.
    """
    app = kf.App("s13")
    left, right = sides(app, "10 seconds", "k int, t timestamp")
    joined = left.select(lk="k", lt="t").join(
        right.select(rk="k", rt="t"), on="l.lk = r.rk", within=(0, "5 seconds"), how="full"
    )
    whole(joined, "pairs", "lk", "rk", "second(lt) lt", "second(rt) rt")

    def put(d: Driver, stream: str, *rows: tuple[int, int]) -> None:
        d.push(stream, [{"k": k, "t": ZERO + t * SECOND} for k, t in rows])

    with drive(app) as d:
        put(d, "l", (1, 5), (3, 5))
        put(d, "r", (1, 10), (2, 5))
        put(d, "r", (1, 9))
        expected = [(1, 1, 5, 10), (1, 1, 5, 9)]
        assert pairs(d) == of(*expected)
        put(d, "l", (1, 7), (1, 30))
        put(d, "r", (0, 30))
        expected += [(1, 1, 7, 9), (1, 1, 7, 10), (3, None, 5, None), (None, 2, None, 5)]
        assert pairs(d) == of(*expected)
        d.crash()
        advance(d, 60)
        assert pairs(d) == of(*expected, (1, None, 30, None), (None, 0, None, 30))


def test_f20_a_left_join_with_a_condition_on_the_left_alone() -> None:
    """F20. T1 is between 5 seconds before and 6 seconds after T2: seen from T1, T2 is at most 6 seconds older
    and 5 seconds newer.
    """
    app = kf.App("f20")
    left, right = sides(app)
    joined = left.join(right, on="l.k = r.k and l.v <> 'L-5'", within=("6 seconds", "5 seconds"), how="left")
    whole(joined, "pairs", "l_k", "r_v", "l_v")
    times = zip("AABBACAAA", (1, 2, 4, 5, 6, 7, 10, 12, 20), strict=True)
    with drive(app) as d:
        push(d, "l", *((k, f"L-{t}", t) for k, t in times))
        push(d, "r", ("A", "R-6", 6), ("B", "R-7", 7), ("D", "R-8", 8), ("A", "R-11", 11))
        advance(d, 40)
        assert pairs(d) == of(
            *(("A", "R-6", f"L-{n}") for n in (1, 2, 6, 10, 12)),
            ("B", "R-7", "L-4"),
            *(("A", "R-11", f"L-{n}") for n in (6, 10, 12)),
            ("B", None, "L-5"),
            ("C", None, "L-7"),
            ("A", None, "L-20"),
        )


def test_a_condition_may_have_what_spark_writes_out_before_it_runs() -> None:
    """BETWEEN and NULLIF name a part of themselves that Spark computes once; here they are written out."""
    conditions = {
        "near": "r.x between l.x - 1 and l.x + 1",
        "unlike": "nullif(l.x, r.x) is not null",
        "nested": "r.x between nullif(l.x, 7) - 1 and nvl(nullifzero(l.x), 1) + 1",
        "keyed": "nullif(l.v, '') = r.v",
        "alone": "l.x between 2 and 8 and not r.x between 3 and 4",
    }
    app = kf.App("written")
    left, right = sides(app, schema=f"{SCHEMA}, x int")
    for name, condition in conditions.items():
        joined = left.join(right, on=f"l.k = r.k and {condition}", within="10 seconds")
        whole(joined, name, "l_x", "r_x")
    nested = left.where("x between nullif(x, 0) - 1 and coalesce(nullif(x, 5), 5) + 1")
    nested.by("k").table("filtered", n="count(*)")
    with drive(app) as d:
        for stream, values in (("l", (0, 2, 7)), ("r", (0, 1, 3, 8))):
            d.push(stream, [{"k": "a", "v": str(x), "x": x, "t": ZERO + x * SECOND} for x in values])
        assert pairs(d, "near") == of((0, 0), (0, 1), (2, 1), (2, 3), (7, 8))
        assert pairs(d, "unlike") == of(*((x, y) for x in (0, 2, 7) for y in (0, 1, 3, 8) if x != y))
        assert pairs(d, "nested") == of((0, 0), (0, 1), (2, 1), (2, 3))
        assert pairs(d, "keyed") == of((0, 0))
        assert pairs(d, "alone") == of(*((x, y) for x in (2, 7) for y in (0, 1, 8)))
        assert d.rows("filtered") == [{"k": "a", "n": 2}]


def test_rows_set_aside_before_a_join_are_listed_once_and_counted_once() -> None:
    """Of each side: what does not parse, what its own select can't compute, what the condition can't, what is
    late; then a row that the table refuses. No source is read twice.
    """
    app = kf.App("aside")
    left, right = sides(app, schema="k string, v string, t timestamp")
    good = left.select("k", "t", "v", n="1 / cast(v as int)")
    joined = good.join(right, on="l.k = r.k and cast(r.v as int) > 0", within="5 seconds", how="left")
    joined.by("l_k").table("t", n="count(*)", met="count(r_v)")
    with drive(app) as d:
        push(d, "l", ("a", "1", 10), ("a", "0", 10), (None, "1", 10), ("b", "2", 11))
        d.push(
            "r",
            ["{broken", {"k": "a", "v": "none", "t": ZERO}, {"k": "a", "v": "7", "t": ZERO + 10 * SECOND}],
        )
        d.push("l", ["broken too"])
        advance(d, 30)
        push(d, "l", ("a", "1", 29.999), ("a", "1", 30))
        push(d, "r", ("a", "3", 29), ("a", "3", 30))
        d.crash()
        advance(d, 60)
        status = d.handle.status()["tables"]["t"]
        progress = [json.loads(p.json) for p in d.handle.queries["t"].recentProgress]
        assert [(r["l_k"], r["n"], r["met"]) for r in d.rows("t")] == [("a", 2, 2), ("b", 1, 0)]
        assert Counter(r.get("stream") for r in d.rejected("t")) == Counter(["l", "l", "r", "r", None])
        assert "l_k is null" in next(r["reason"] for r in d.rejected("t") if "stream" not in r)
        found = [(r["stream"], json.loads(r["raw"])["t"][17:23], r["missed"]) for r in d.late("t")]
        assert sorted(found) == [("l", "29.999", 0), ("r", "29.000", 0)]
        assert (status["late"], status["rejected"]) == (2, 5)
    assert sum(o["numRowsDroppedByWatermark"] for p in progress for o in p["stateOperators"]) == 0
    # Since the crash: the batch that ran again, and two rows that only move time.
    assert sum(p["numInputRows"] for p in progress) <= 4


def test_columns_of_a_join_have_one_name_each() -> None:
    """Columns of `on` once, with the value that there is; others that both have, with their stream's name."""
    app = kf.App("names")
    left = app.stream("orders", kf.rows([]), schema="Id string, v int, a int, t timestamp", time="t")
    right = app.stream("payments", kf.rows([]), schema="v int, id string, b int, t timestamp", time="t")
    for how in ("inner", "full", "right", "left_semi"):
        joined = left.join(right, on="id", within="1 second", how=how)  # type: ignore[arg-type]
        joined.by(all="1").table(how, rows="collect_list(struct(* except (all)))")
    chained = left.join(right, on="id", within="1 second").select("id", "a", t="orders_t")
    again = chained.join(right.select("v", "id"), on="orders_payments.id = payments.id", within="1 second")
    again.by(all="1").table("twice", rows="collect_list(struct(* except (all)))")
    every = ["Id", "orders_v", "a", "orders_t", "payments_v", "b", "payments_t"]
    with drive(app) as d:
        d.push("orders", [{"Id": "1", "v": 1, "a": 2, "t": ZERO}])
        d.push("payments", [{"id": i, "v": 5, "b": 3, "t": ZERO} for i in "12"])
        for stream in ("orders", "payments"):
            d.advance(stream, ZERO + 60 * SECOND)
        assert [list(r) for r in d.rows("inner")[0]["rows"]] == [every]
        for how in ("full", "right"):
            found = [tuple(r[c] for c in ("Id", "a", "b")) for r in d.rows(how)[0]["rows"]]
            assert sorted(found) == [("1", 2, 3), ("2", None, 3)]
        assert [list(r) for r in d.rows("left_semi")[0]["rows"]] == [["Id", "v", "a", "t"]]
        assert d.rows("twice")[0]["rows"] == [
            {"orders_payments_id": "1", "a": 2, "t": ZERO, "v": 5, "payments_id": "1"}
        ]


@pytest.mark.parametrize(
    ("on", "said"),
    [
        ("kk", ["there is no column kk in l", "did you mean 'k'?"]),
        ("only", ["there is no column only in l"]),
        ("l.k = r.vv", ["there is no column `r`.`vv`", "`r`.`v`"]),
        ("l.v > r.v", ["at least one equality", "l.x = r.y"]),
        ("l.k = l.v", ["at least one equality"]),
        ("l.k = r.n", ["l.k is STRING and r.n is INT", "cast one of them"]),
        ("typed", ["l.typed is INT and r.typed is BIGINT"]),
        ("l.k = rand()", ["join:"]),
        ("l.k =", ["not a Spark SQL expression"]),
        ("k", ["two columns would be called l_v", ".select(...)"]),
    ],
)
def test_what_can_not_be_joined_is_refused_with_what_to_do(on: str, said: list[str]) -> None:
    app = kf.App("shop")
    clash = ", l_v int" if on == "k" else ""
    left = app.stream("l", kf.rows([]), schema=f"{SCHEMA}, typed int{clash}", time="t")
    right = app.stream("r", kf.rows([]), schema=f"{SCHEMA}, n int, only int, typed bigint", time="t")
    # Behind a select, what columns there are is known to Spark alone.
    left.select("*").join(right.select("*"), on=on, within="1 second").by(all="1").table("t", n="count(*)")
    with pytest.raises(BadExpression) as error, drive(app):
        pass
    text = str(error.value)
    assert "shop.t, join, test_joins.py:" in text
    assert "_kf_" not in text
    assert [part for part in said if part not in text] == [], text


def test_a_join_feeds_windows_ttl_and_another_join() -> None:
    """Windows over joined rows close when nothing can come any more, and no joined row is called late."""
    app = kf.App("after")
    left, right = sides(app)
    joined = left.join(right, on="k", within="5 seconds", how="left").select("k", v="l_v", w="r_v")
    joined.by("k").tumbling("10 seconds").table("closed", n="count(*)", met="count(w)", emit="final")
    joined.by("k").table("kept", n="count(*)", ttl="20 seconds")
    third = app.stream("x", kf.rows([]), schema="k string, t timestamp", time="t")
    joined.join(third, on="k", within="5 seconds", how="left_anti").by("k").table("lone", n="count(*)")
    with drive(app) as d:
        push(d, "l", ("a", "1", 1), ("a", "2", 8), ("b", "3", 9))
        push(d, "r", ("a", "1", 2))
        d.push("x", [{"k": "a", "t": ZERO + 3 * SECOND}])
        for to in (30, 100):
            advance(d, to)
            d.advance("x", ZERO + to * SECOND)
            if to == 30:
                assert [(r["k"], r["n"]) for r in d.rows("kept")] == [("a", 2), ("b", 1)]
        assert [(r["k"], r["n"], r["met"]) for r in d.rows("closed")] == [("a", 2, 1), ("b", 1, 0)]
        assert d.rows("kept") == []
        assert [(r["k"], r["n"]) for r in d.rows("lone")] == [("b", 1)]
        assert [d.late(t) for t in ("closed", "kept", "lone")] == [[], [], []]
