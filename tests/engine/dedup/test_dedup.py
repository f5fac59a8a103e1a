"""Streams without repeats: what is one, what becomes of it, and for how long rows are remembered.

Times are seconds from the start of 2026.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadExpression
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def app_of(late: str | int = 0, schema: str = "k string, x int, t timestamp") -> tuple[kf.App, kf.Stream]:
    app = kf.App("distinct")
    return app, app.stream("rows", kf.rows([]), schema=schema, time="t", late=late)


def whole(stream: kf.Stream, name: str, column: str = "round(unix_micros(t) / 1000000D, 6)") -> None:
    stream.by("k").table(name, found=f"collect_list({column})")


def push(d: Driver, *rows: tuple[Any, ...]) -> None:
    """Rows (key, time in seconds[, x]) as one batch."""
    d.push("rows", [{"k": k, "t": ZERO + t * SECOND, "x": x[0] if x else 1} for k, t, *x in rows])


def times(d: Driver, table: str = "kept") -> dict[str, list[float]]:
    """When the rows were that went on, by key."""
    zero = ZERO.timestamp()
    return {r["k"]: sorted(round(t - zero, 6) for t in r["found"]) for r in d.rows(table)}


def duplicates(d: Driver, table: str = "kept") -> int:
    n: int = d.handle.status()["tables"][table]["duplicates"]
    return n


def operators(d: Driver, table: str) -> list[int]:
    """How many keys each step of a table has in its state, that of distinct first."""
    source = d.handle.spark.read.format("statestore").option("stateVarName", "state")
    checkpoint = str(d.handle.home.table(table).checkpoint)
    return [source.option("operatorId", n).load(checkpoint).count() for n in (1, 0)]


def timers(d: Driver, table: str) -> int:
    source = d.handle.spark.read.format("statestore").option("readRegisteredTimers", "true")
    n: int = source.option("operatorId", 1).load(str(d.handle.home.table(table).checkpoint)).count()
    return n


def test_s7_rows_within_the_lateness_of_each_other() -> None:
    """S7, where the span is the watermark's delay: a value is the key, and the row's time in seconds. Rows of
    its state are the keys remembered.
    """
    app, rows = app_of("10 seconds")
    whole(rows.distinct("k", within="10 seconds"), "kept")
    with drive(app) as d:

        def values(*found: int) -> tuple[set[int], int]:
            push(d, *((str(v), v) for v in found))
            new = {int(c["k"]) for c in d.changes("kept")}
            return new, operators(d, "kept")[0]

        assert values(*[*range(10, 16)] * 5) == ({10, 11, 12, 13, 14, 15}, 6)
        assert duplicates(d) == 24
        assert values(*range(13, 18)) == ({16, 17}, 8)
        assert d.late("kept") == []
        assert values(5) == (set(), 8)
        assert [json.loads(r["raw"])["k"] for r in d.late("kept")] == ["5"]
        assert values(35) == ({35}, 3)
        assert values(55) == ({55}, 1)
        assert timers(d, "kept") == 1
        assert duplicates(d) == 27


def test_a_repeat_is_less_than_within_from_a_row_that_was_kept() -> None:
    app, rows = app_of("1 minute")
    whole(rows.distinct("k", within="10 seconds"), "kept")
    whole(rows.distinct("k", "x", within="10 seconds"), "pairs")
    whole(rows.distinct("k", within="1 millisecond"), "short")
    near = 10 - 1e-6
    with drive(app) as d:
        push(d, ("a", 100), ("b", 104))
        push(d, ("a", 100 + near))
        assert times(d) == {"a": [100], "b": [104]}
        push(d, ("a", 110))
        push(d, ("a", 100 - near), ("b", 94))
        assert times(d) == {"a": [100, 110], "b": [94, 104]}
        d.restart()
        push(d, ("a", 90))
        # 95 is near to 90, and 105 to 110: that nothing of the rows between was kept, removed them.
        push(d, ("a", 95), ("a", 105), ("a", 119.5), ("a", 120), ("a", 80.5))
        assert times(d) == {"a": [90, 100, 110, 120], "b": [94, 104]}
        assert duplicates(d) == 6
        push(d, ("a", 130, 2), ("a", 125, 1), ("a", 131, 1))
        assert times(d)["a"] == [90, 100, 110, 120, 130]
        assert times(d, "pairs")["a"][-3:] == [120, 130, 131]
        # Two of a's thirteen rows are a microsecond from another one.
        assert (len(times(d, "short")["a"]), duplicates(d, "short")) == (11, 2)
        assert d.late("kept") == d.late("pairs") == d.rejected("rows") == []


def test_of_a_batch_the_oldest_row_is_kept_and_of_equal_ones_the_first() -> None:
    app, rows = app_of("1 minute")
    first = rows.distinct("k", within="10 seconds", record_duplicates=True)
    first.by("k").table("kept", xs="collect_list(x)")
    with drive(app) as d:
        push(d, ("a", 105, 1), ("a", 100, 2), ("a", 100, 3), ("a", 109.9, 4), ("a", 110, 5), ("b", 105, 6))
        assert {r["k"]: sorted(r["xs"]) for r in d.rows("kept")} == {"a": [2, 5], "b": [6]}
        assert Counter(json.loads(r["raw"])["x"] for r in d.duplicates("kept")) == Counter([1, 3, 4])
        push(d, ("a", 119, 7), ("b", 104, 8))
        d.crash()
        found = d.duplicates("kept")
        assert sorted(json.loads(r["raw"])["x"] for r in found) == [1, 3, 4, 7, 8]
        assert json.loads(found[-1]["raw"]).keys() == {"k", "x", "t"}
        assert all(r["step"] == found[0]["step"] and "distinct" in r["step"] for r in found)
        assert set(found[0]) == {"batch", "at", "step", "raw"}
        d.crash()
        d.restart()
        assert d.duplicates("kept") == found
        assert duplicates(d) == 5


def test_rows_set_aside_go_through_and_late_ones_are_no_repeats() -> None:
    app, rows = app_of("5 seconds")
    kept = rows.where("x > 0").select("*", tenth="10 div (x - 9)").distinct("k", within="10 seconds")
    whole(kept, "kept")
    kept.by("k").table("sums", n="count(*)", inverse="sum(1 div (x - 7))")
    with drive(app) as d:
        push(d, ("a", 100), (None, 100), ("b", 100, 9), ("c", 100, 7), ("x", 100, 0))
        d.push("rows", ["no json", {"k": "n", "x": 1}])
        push(d, ("a", 94.9), ("d", 95), ("a", 95))
        assert times(d) == {"a": [100], "c": [100], "d": [95]}
        late = d.late("kept")
        assert [json.loads(r["raw"])["k"] for r in late] == ["a"]
        assert late[0]["late_by"] == pytest.approx(0.1, abs=1e-6)
        reasons = sorted(r["reason"] for r in d.rejected("kept"))
        assert reasons[1:] == ["does not parse", "event time is null", "key k is null"]
        assert "zero" in reasons[0]
        assert len(d.rejected("sums")) == 5, "the table has one of its own"
        assert len(d.rejected("rows")) == 5
        assert (duplicates(d), duplicates(d, "sums")) == (1, 1)
        assert d.duplicates("kept") == [], "only counted"


def test_state_goes_when_time_has_passed() -> None:
    app, rows = app_of("5 seconds")
    whole(rows.distinct("k", within="10 seconds"), "kept")
    with drive(app) as d:
        push(d, *((f"k{n}", n) for n in range(8)))
        assert operators(d, "kept")[0] == timers(d, "kept") == 8
        # A key that has a second row is remembered for as long as that.
        push(d, ("k0", 10), ("k1", 5), ("k9", 14.999))
        assert operators(d, "kept")[0] == 9
        d.advance("rows", ZERO + 15 * SECOND)
        assert (operators(d, "kept")[0], timers(d, "kept")) == (9, 9)
        d.advance("rows", ZERO + 19 * SECOND)
        assert (operators(d, "kept")[0], timers(d, "kept")) == (5, 5)
        d.crash()
        d.advance("rows", ZERO + 60 * SECOND)
        assert (operators(d, "kept")[0], timers(d, "kept")) == (0, 0)
        push(d, ("k0", 60))
        assert times(d)["k0"] == [0, 10, 60]


def test_windows_ttl_and_a_second_distinct_after_it() -> None:
    app, rows = app_of("5 seconds")
    once = rows.distinct("k", within="10 seconds")
    once.by("k").tumbling("10 seconds").table("windows", n="count(*)")
    once.by("k").tumbling("10 seconds").table("closed", n="count(*)", emit="final")
    once.by("k").table("short", n="count(*)", ttl="20 seconds")
    once.distinct("x", within="30 seconds", record_duplicates=True).by("k").table("twice", n="count(*)")
    with drive(app) as d:
        push(d, ("a", 1, 1), ("a", 5, 2), ("b", 2, 1), ("b", 13, 3))
        push(d, ("a", 12, 4), ("a", 9, 5), ("b", 14, 6))
        d.crash()

        def windows(table: str) -> list[tuple[Any, ...]]:
            return [(r["k"], (r["window_start"] - ZERO) / SECOND, r["n"]) for r in d.rows(table)]

        expected = [("a", 0, 1), ("a", 10, 1), ("b", 0, 1), ("b", 10, 1)]
        assert windows("windows") == expected
        assert windows("closed") == []
        d.advance("rows", ZERO + 15 * SECOND)
        assert windows("closed") == [("a", 0, 1), ("b", 0, 1)]
        assert d.rows("short") == [{"k": "a", "n": 2}, {"k": "b", "n": 2}]
        # One was removed here of the two of the first batch, and nothing later: a's 12 is x = 4.
        assert d.rows("twice") == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
        assert [json.loads(r["raw"])["k"] for r in d.duplicates("twice")] == ["b"]
        assert duplicates(d, "twice") == 1 + duplicates(d, "windows") == 4
        d.advance("rows", ZERO + 40 * SECOND)
        assert windows("closed") == expected
        assert d.rows("short") == []
        push(d, ("a", 39, 9), ("a", 34, 9))
        assert d.rows("short") == [{"k": "a", "n": 1}]
        assert [len(d.late(t)) for t in ("windows", "closed", "short", "twice")] == [1, 1, 1, 1]


def test_without_event_time_repeats_are_told_by_arrival() -> None:
    app = kf.App("arrival")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    rows.distinct("k", within="1 hour").by("k").table("long", xs="collect_list(x)")
    rows.distinct("k", within="1 second").by("k").table("short", n="count(*)")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "a", "x": 2}, {"k": "b", "x": 3}])
        assert d.rows("short") == [{"k": "a", "n": 1}, {"k": "b", "n": 1}]
        assert duplicates(d, "short") == 1
        pushes = 0
        while d.get("short", "a")["n"] == 1:  # type: ignore[index]
            pushes += 1
            assert pushes < 50
            d.push("rows", [{"k": "a", "x": 4}])
        d.restart()
        d.push("rows", [{"k": "b", "x": 5}])
        assert d.rows("long") == [{"k": "a", "xs": [1]}, {"k": "b", "xs": [3]}]
        assert duplicates(d, "long") == pushes + 2
        assert duplicates(d, "short") == pushes
        assert d.rejected("rows") == d.late("long") == []


def test_a_column_that_is_not_there_or_has_no_equality_is_refused() -> None:
    app, rows = app_of(schema="k string, m map<string, int>, t timestamp")
    rows.transform(lambda frame: frame.drop("k")).distinct("k", within="1 hour").by("m").table("t", n="1")
    with pytest.raises(BadExpression, match="k") as info, drive(app):
        pass
    assert "distinct.t, distinct" in str(info.value)
    app, rows = app_of(schema="k string, m map<string, int>, t timestamp")
    rows.distinct("m", within="1 hour").by("k").table("t", n="count(*)")
    with pytest.raises(BadExpression, match="m is a map"), drive(app):
        pass
