"""Windows of every kind: which rows they cover, and what they hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive
from tests.engine.models.window_rows import KINDS, SECOND, ZERO, app_of, changes, push, view

pytestmark = pytest.mark.jvm

# Which rows a window covers


def test_a_tumbling_window_has_its_start_and_not_its_end() -> None:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("t", n="count(*)", total="sum(x)")
    with drive(app) as d:
        d.push(
            "rows",
            [{"k": "old", "t": "1970-01-01T00:00:09.999999Z"}, {"k": "old", "t": "1970-01-01T00:00:10Z"}],
        )
        assert [
            (r["window_start"].isoformat(), r["window_end"].isoformat(), r["n"]) for r in d.rows("t")
        ] == [
            ("1970-01-01T00:00:00+00:00", "1970-01-01T00:00:10+00:00", 1),
            ("1970-01-01T00:00:10+00:00", "1970-01-01T00:00:20+00:00", 1),
        ]
        d.changes("t")
        push(d, ("a", 0, 1), ("a", 9.999999, 2), ("a", 10, 4), ("b", 10, 8))
        assert list(d.rows("t")[0]) == ["k", "window_start", "window_end", "n", "total"]
        assert view(d, "t", "n", "total")[:3] == [
            ("a", 0, 10, 2, 3),
            ("a", 10, 20, 1, 4),
            ("b", 10, 20, 1, 8),
        ]
        found = changes(d, "t")
        assert [c for c in found if c[1] == "a"] == [
            ("upsert", "a", 0, 10, 2),
            ("upsert", "a", 10, 20, 1),
            # The watermark is 10: exactly equal is over.
            ("final", "a", 0, 10, 2),
        ]
        assert [c[0] for c in found if c[1] == "old"] == ["final"], "the other closed with the first batch"
        push(d, ("b", 11, 1), ("b", 12, 1))
        assert changes(d, "t") == [("upsert", "b", 10, 20, 3)], "one change for a batch and window"
        d.advance("rows", ZERO + 19.999 * SECOND)
        assert changes(d, "t") == []
        d.advance("rows", ZERO + 20 * SECOND)
        assert sorted(changes(d, "t")) == [("final", "a", 10, 20, 1), ("final", "b", 10, 20, 3)]
        d.advance("rows", ZERO + 2000 * SECOND)
        assert changes(d, "t") == []
        assert len(d.rows("t")) == 5, "rows of closed windows stay"


def test_sliding_windows_whose_size_is_no_multiple_of_every() -> None:
    app, rows = app_of()
    rows.by("k").sliding("10 seconds", every="4 seconds").table("t", n="count(*)", xs="collect_list(x)")
    with drive(app) as d:
        push(d, ("a", 5, 1), ("a", 9, 2), ("a", 12, 3))
        assert [(*row[:3], sorted(row[3])) for row in view(d, "t", "xs")] == [
            ("a", -4, 6, [1]),
            ("a", 0, 10, [1, 2]),
            ("a", 4, 14, [1, 2, 3]),
            ("a", 8, 18, [2, 3]),
            ("a", 12, 22, [3]),
        ]
        d.changes("t")
        # The watermark is 12: this row has missed [0, 10), and is in time for [4, 14).
        push(d, ("a", 7, 4))
        assert [c[:4] for c in changes(d, "t")] == [("upsert", "a", 4, 14)]
        found = {row[1]: sorted(row[3]) for row in view(d, "t", "xs")}
        assert found == {-4: [1], 0: [1, 2], 4: [1, 2, 3, 4], 8: [2, 3], 12: [3]}
        (late,) = d.late("t")
        assert (late["missed"], late["windows"]) == (
            1,
            [{"window_start": ZERO, "window_end": ZERO + 10 * SECOND}],
        )
        d.advance("rows", ZERO + 100 * SECOND)
        assert sorted(changes(d, "t")) == [
            ("final", "a", 4, 14, 4),
            ("final", "a", 8, 18, 2),
            ("final", "a", 12, 22, 1),
        ]


def test_offsets_move_windows() -> None:
    app, rows = app_of()
    keyed = rows.by("k")
    keyed.tumbling("10 seconds", offset="3 seconds").table("tumbling", n="count(*)")
    keyed.tumbling("10 seconds", offset="-7 seconds").table("back", n="count(*)")
    keyed.sliding("10 seconds", every="5 seconds", offset="3 seconds").table("sliding", n="count(*)")
    with drive(app) as d:
        push(d, ("a", 2), ("a", 3), ("a", 12.5))
        assert view(d, "tumbling") == view(d, "back") == [("a", -7, 3, 1), ("a", 3, 13, 2)]
        assert view(d, "sliding") == [("a", -7, 3, 1), ("a", -2, 8, 2), ("a", 3, 13, 2), ("a", 8, 18, 1)]


def hours(first: str, last: str) -> list[dict[str, Any]]:
    """A row for each full hour from one moment to before another."""
    start, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    return [
        {"k": "a", "t": start + n * timedelta(hours=1)} for n in range((end - start) // timedelta(hours=1))
    ]


@pytest.mark.parametrize(
    ("zone", "around", "start", "end"),
    [
        ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("Europe/Berlin", "2026-10-25", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        # Clocks change at midnight: a day without its first hour, and one that has it twice.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00Z", "2018-11-05T02:00Z"),
        ("America/Havana", "2025-11-02", "2025-11-02T04:00Z", "2025-11-03T05:00Z"),
    ],
)
def test_days_of_a_zone_have_23_or_25_hours(zone: str, around: str, start: str, end: str) -> None:
    app, rows = app_of(future=None)
    keyed = rows.by("k")
    keyed.tumbling("1 day", zone=zone).table("days", n="count(*)")
    keyed.sliding("2 days", every="1 day", zone=zone).table("pairs", n="count(*)", emit="final")
    keyed.tumbling("1 day", zone=zone, offset="6 hours").table("mornings", n="count(*)")
    keyed.tumbling("7 days", zone=zone).table("weeks", n="count(*)")
    middle = datetime.fromisoformat(around + "T00:00Z")
    first, last = middle - timedelta(days=20), middle + timedelta(days=20)
    with drive(app) as d:
        d.push("rows", hours(first.isoformat(), last.isoformat()))
        d.advance("rows", last)
        whole = [r for r in d.rows("days") if first <= r["window_start"] and r["window_end"] <= last]
        assert len(whole) >= 38
        for row in whole:
            # A row each hour counts the hours.
            assert row["n"] == (row["window_end"] - row["window_start"]) / timedelta(hours=1)
        odd = [r for r in whole if r["n"] != 24]
        bounds = (datetime.fromisoformat(start), datetime.fromisoformat(end))
        assert [(r["window_start"], r["window_end"]) for r in odd] == [bounds]
        assert all(a["window_end"] == b["window_start"] for a, b in pairwise(whole))

        pairs = {r["window_start"]: r for r in d.rows("pairs") if first <= r["window_start"]}
        expected = {a["window_start"]: a["n"] + b["n"] for a, b in pairwise(whole)}
        assert {s: pairs[s]["n"] for s in expected} == expected
        mornings = [r for r in d.rows("mornings") if first <= r["window_start"] and r["window_end"] <= last]
        assert sorted({r["n"] for r in mornings}) == sorted({24, odd[0]["n"]})
        assert {r["window_start"].astimezone(ZoneInfo(zone)).hour for r in mornings} == {6}
        weeks = [r for r in d.rows("weeks") if first <= r["window_start"] and r["window_end"] <= last]
        assert sorted({r["n"] for r in weeks}) == sorted({168, 144 + odd[0]["n"]})


def test_sessions_grow_merge_and_close() -> None:
    app, rows = app_of(late="100 seconds")
    rows.by("k").session("5 seconds").table("t", n="count(*)", xs="collect_list(x)")
    with drive(app) as d:
        push(d, ("a", 0, 1), ("a", 5, 2), ("b", 1, 3), ("a", 10.001, 4))
        assert view(d, "t") == [("a", 0, 10, 2), ("a", 10.001, 15.001, 1), ("b", 1, 6, 1)]
        assert {c[0] for c in changes(d, "t")} == {"upsert"}
        # Bounds that stay are not deleted, and what has no new row is not sent again.
        push(d, ("a", 3, 5))
        assert changes(d, "t") == [("upsert", "a", 0, 10, 3)]
        # At the front, at the back, and between two, where the distance is the gap exactly.
        push(d, ("b", -4, 6))
        assert changes(d, "t") == [("delete", "b", 1, 6), ("upsert", "b", -4, 6, 2)]
        push(d, ("a", 8, 7), ("b", 6, 8))
        assert sorted(changes(d, "t")) == [
            ("delete", "a", 0, 10),
            ("delete", "a", 10.001, 15.001),
            ("delete", "b", -4, 6),
            ("upsert", "a", 0, 15.001, 5),
            ("upsert", "b", -4, 11, 3),
        ]
        assert [(row[0], sorted(row[3])) for row in view(d, "t", "xs")] == [
            ("a", [1, 2, 4, 5, 7]),
            ("b", [3, 6, 8]),
        ]
        d.advance("rows", ZERO + 111 * SECOND)
        assert changes(d, "t") == [("final", "b", -4, 11, 3)]
        # A closed session takes no more rows: one that is in time begins another beside it.
        push(d, ("b", 9, 9))
        assert changes(d, "t") == [("upsert", "b", 9, 14, 1)]
        push(d, ("b", 3, 10))
        assert [r["missed"] for r in d.late("t")] == [1]
        # By itself it would be late; the session that it ends up in is open.
        push(d, ("b", 5.5, 11))
        assert changes(d, "t") == [("delete", "b", 9, 14), ("upsert", "b", 5.5, 14, 2)]
        assert len(d.late("t")) == 1
        assert view(d, "t") == [("a", 0, 15.001, 5), ("b", -4, 11, 3), ("b", 5.5, 14, 2)]


def test_each_row_may_bring_the_gap_of_its_session() -> None:
    app, rows = app_of(late="100 seconds")
    gap = """case when x = 1 then interval '2' second when x = 2 then interval '20' second
        when x < 0 then interval '-1' second end"""
    rows.by("k").session(gap).table("t", n="count(*)", total="sum(x)")
    with drive(app) as d:
        push(d, ("a", 0, 1), ("a", 2, 1), ("a", 5, 2), ("a", 7, 1), ("a", 26, 1))
        assert view(d, "t") == [("a", 0, 4, 2), ("a", 5, 25, 2), ("a", 26, 28, 1)]
        d.changes("t")
        push(d, ("a", 4, 1), ("a", 25, 1))
        assert view(d, "t") == [("a", 0, 28, 7)]
        # A row in the middle of a long session ends it no earlier.
        push(d, ("b", 0, 2), ("b", 3, 1))
        assert view(d, "t")[1:] == [("b", 0, 20, 2)]
        push(d, ("c", 0, 3), ("c", 0, -1), ("c", 0, 1))
        assert view(d, "t")[2:] == [("c", 0, 2, 1)]
        reasons = sorted(r["reason"] for r in d.rejected("t"))
        assert len(reasons) == 2
        assert all("gap" in reason for reason in reasons)
        assert "null" in reasons[1]


def test_rolling_covers_the_last_duration_up_to_the_newest_row() -> None:
    app, rows = app_of(late="1 hour")
    keyed = rows.by("k")
    chain = kf.fold(zero={"s": "''"}, update={"s": "concat(state.s, ' ', x)"})
    keyed.rolling("10 seconds").table("exact", n="count(*)", most="max(x)", chain=chain)
    keyed.rolling("10 seconds", every="5 seconds").table("panes", n="count(*)", most="max(x)")
    with drive(app) as d:
        push(d, ("a", 0, 9), ("a", 4, 2), ("b", 2, 5))
        assert list(d.rows("exact")[0]) == ["k", "n", "most", "chain"]
        assert rolled(d) == ({"a": (2, 9), "b": (1, 5)}, {"a": (2, 9), "b": (1, 5)})
        # Exactly ten seconds before the newest row is out; the pane that it is in is out too.
        push(d, ("a", 10, 3))
        assert rolled(d)[0]["a"] == (2, 3)
        assert rolled(d)[1]["a"] == (1, 3)
        assert [c["k"] for c in d.changes("exact")][2:] == ["a"], "b got no rows, and is as it was"
        push(d, ("a", 5, 7), ("a", 0.001, 1), ("a", 0, 8))
        assert rolled(d)[0]["a"] == (4, 7), "the last one is too old"
        assert rolled(d)[1]["a"] == (2, 7), "the last two are too old"
        assert d.get("exact", "a")["chain"] == " 1 2 7 3", "by event time"
        assert [len(d.late(table)) for table in ("exact", "panes")] == [1, 2]
        d.advance("rows", ZERO + 10_000 * SECOND)
        assert rolled(d)[0] == {"a": (4, 7), "b": (1, 5)}, "event time alone moves nothing"
        push(d, ("a", 14.999, 1), ("a", 3, 1))
        assert rolled(d)[0]["a"] == (3, 7)
        assert rolled(d)[1]["a"] == (3, 7)
        # What one batch brings and passes at once was never too old.
        assert [len(d.late(table)) for table in ("exact", "panes")] == [1, 3]
        d.restart()
        push(d, ("a", 500, 1))
        assert rolled(d)[0]["a"] == rolled(d)[1]["a"] == (1, 1)


def rolled(d: Driver) -> tuple[dict[str, Any], dict[str, Any]]:
    exact, panes = ({r["k"]: (r["n"], r["most"]) for r in d.rows(t)} for t in ("exact", "panes"))
    return exact, panes


def test_last_covers_the_newest_rows_by_time_then_arrival() -> None:
    app, rows = app_of()
    plain = app.stream("plain", kf.rows([]), schema="k string, x bigint")
    columns = {"n": "count(*)", "mean": "avg(x)", "most": "max(x)"}
    chain = kf.fold(zero={"s": "''"}, update={"s": "concat(state.s, ' ', x)"})
    rows.by("k").last(3).table("timed", {**columns, "chain": chain})
    plain.by("k").last(2).table("arrived", {**columns, "chain": chain})
    with drive(app) as d:
        push(d, ("a", 5, 1), ("a", 1, 2))
        assert d.rows("timed") == [{"k": "a", "n": 2, "mean": 1.5, "most": 2, "chain": " 2 1"}]
        push(d, ("a", 3, 3), ("a", 7, 4), ("a", 3, 5))
        assert d.rows("timed") == [{"k": "a", "n": 3, "mean": 10 / 3, "most": 5, "chain": " 5 1 4"}]
        assert d.late("timed") == [], "they came in time, and were passed"
        # Older than all that are kept; of the same time, the one that came later is newer.
        push(d, ("a", 2, 100), ("b", 0, 1))
        push(d, ("a", 3, 6))
        assert d.get("timed", "a")["chain"] == " 6 1 4"
        assert [(r["time"] - ZERO) / SECOND for r in d.late("timed")] == [2]
        d.crash()
        assert d.get("timed", "a")["chain"] == " 6 1 4"
        for batch in ([1, 2, 3], [4]):
            d.push("plain", [{"k": "a", "x": x} for x in batch])
        assert d.rows("arrived") == [{"k": "a", "n": 2, "mean": 3.5, "most": 4, "chain": " 3 4"}]
        assert d.late("arrived") == []


def test_moving_rows_of_a_silent_key_are_forgotten() -> None:
    app, rows = app_of()
    for name in ("rolling", "panes", "last"):
        KINDS[name](rows.by("k")).table(name, n="count(*)", ttl="1 minute")
    with drive(app) as d:
        push(d, ("a", 0), ("a", 1), ("b", 1))
        push(d, ("b", 30))
        d.advance("rows", ZERO + 60.999 * SECOND)
        for name in ("rolling", "panes", "last"):
            assert {r["k"] for r in d.rows(name)} == {"a", "b"}, name
        d.advance("rows", ZERO + 61 * SECOND)
        for name in ("rolling", "panes", "last"):
            assert {r["k"] for r in d.rows(name)} == {"b"}, name
            assert [c["_op"] for c in d.changes(name) if c["k"] == "a"] == ["upsert", "delete"]
        push(d, ("a", 0.5), ("b", 31))
        for name in ("rolling", "panes", "last"):
            # What was forgotten makes no row late; it is over again at once.
            assert [c["_op"] for c in d.changes(name) if c["k"] == "a"] == ["upsert", "delete"], name
            assert d.late(name) == []


# What windows hold

AGGREGATES = {
    "n": "count(*)",
    "known": "count(x)",
    "total": "sum(x)",
    "mean": "avg(x)",
    "spread": "stddev(x)",
    "middle": "percentile(x, array(0.25, 0.5))",
    "near": "percentile_approx(x, 0.5)",
    "about": "approx_count_distinct(x)",
    "different": "count(distinct x)",
    "both": "count(distinct x, c)",
    "first": "first(c)",
    "last": "last(c, true)",
    "earliest": "min_by(u, struct(t, u))",
    "latest": "max_by(struct(x, u), struct(t, u))",
    "some": "sum(x) filter (where u % 2 = 0)",
    "few": "count(distinct x) filter (where u % 3 = 0)",
    "all": "sort_array(collect_list(u))",
    "kinds": "sort_array(collect_set(x))",
    "often": "mode(x % 2, true)",
    "largest": "max(struct(x, u))",
    "ratio": "sum(x) / count(*) + max(u)",
}


def test_every_family_of_aggregates_equals_sparks_own_windows() -> None:
    from pyspark.sql import functions as F

    schema = "k string, x bigint, u bigint, c string, t timestamp"
    app, rows = app_of(late="1 hour", schema=schema)
    keyed = rows.by("k")
    windows: dict[str, tuple[Any, str]] = {
        "tumbling": (keyed.tumbling("10 seconds"), "window(t, '10 seconds')"),
        "sliding": (
            keyed.sliding("12 seconds", every="5 seconds", offset="1 second"),
            "window(t, '12 seconds', '5 seconds', '1 second')",
        ),
        "session": (keyed.session("3 seconds"), "span"),
    }
    one_by_one = kf.fold(zero={"n": "0L"}, update={"n": "state.n + 1"}, merge={"n": "state.n + other.n"})
    for name, (declared, _) in windows.items():
        declared.table(name, AGGREGATES)
        # Beside a fold rows reach the state one by one.
        declared.table(f"{name}_folded", {**AGGREGATES, "own": one_by_one}, emit="final")
    given = [
        {
            "k": "abc"[u * 7 % 3],
            "x": None if u % 11 == 0 else u * 37 % 13,
            "u": u,
            "c": "abc"[u * 7 % 3].upper(),
        }
        | {"t": ZERO + (u * 29 % 83) * SECOND}
        for u in range(90)
    ]
    with drive(app) as d:
        d.push("rows", given[:20])
        d.push("rows", given[20:21])
        d.crash()
        d.push("rows", given[21:])
        feed = str(d.handle.home.path / "feeds" / "rows")
        whole = d.handle.spark.read.schema(schema).json(feed)
        # Spark's sessions count rows twice beside count(distinct ...), so that they give the bounds alone.
        spans = whole.groupBy("k", F.session_window("t", "3 seconds").alias("span")).agg(F.count("*"))
        whole = whole.join(spans, "k").where("t >= span.start and t < span.end")
        for name, (_, window) in windows.items():
            batch = whole.groupBy("k", F.expr(window).alias("w")).agg(
                *[F.expr(e).alias(c) for c, e in AGGREGATES.items()]
            )
            expected = {
                (r["k"], r["w"]["start"], r["w"]["end"]): r.asDict(recursive=True) for r in batch.collect()
            }
            found = _by_bounds(d.rows(name))
            assert len(found) > 9
            _same(name, found, {_aware(place): row for place, row in expected.items()})
        d.changes("tumbling")
        before = {name: _by_bounds(d.rows(name)) for name in windows}
        assert [d.rows(f"{name}_folded") for name in windows] == [[]] * 3
        d.advance("rows", ZERO + timedelta(days=1))
        for name, live in before.items():
            assert _by_bounds(d.rows(name)) == live
            _same(name, _by_bounds(d.rows(f"{name}_folded")), live)
            assert all(row["own"] == row["n"] for row in d.rows(f"{name}_folded"))
        finals = d.changes("tumbling")
        assert {c.pop("_op") for c in finals} == {"final"}
        assert _by_bounds(finals) == before["tumbling"]
        assert d.rejected("rows") == []


def _by_bounds(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {(r["k"], r["window_start"], r["window_end"]): r for r in rows}


def _aware(place: tuple[str, datetime, datetime]) -> tuple[Any, ...]:
    """Spark's collect gives times of the local zone without saying so."""
    return place[0], place[1].astimezone(UTC), place[2].astimezone(UTC)


def _same(table: str, found: dict[Any, dict[str, Any]], expected: dict[Any, dict[str, Any]]) -> None:
    assert found.keys() == expected.keys(), table
    wrong = [
        f"{table}.{name} of {place}: {found[place][name]!r}, not {row[name]!r}"
        for place, row in expected.items()
        for name in AGGREGATES
        if found[place][name] != (pytest.approx(row[name]) if isinstance(row[name], float) else row[name])
    ]
    assert wrong == []


def test_a_fold_without_merge_works_where_nothing_is_merged() -> None:
    """In a tumbling window it sees rows by event time, then arrival, within what has arrived."""
    app, rows = app_of()
    chain = kf.fold(zero={"s": "''"}, update={"s": "concat(state.s, ' ', x)"})
    keyed = rows.by("k")
    keyed.tumbling("10 seconds").table("tumbling", chain=chain, n="count(*)")
    keyed.sliding("10 seconds", every="10 seconds").table("sliding", chain=chain, n="count(*)")
    with drive(app) as d:
        push(d, ("a", 3, 1), ("a", 12, 9), ("a", 1, 2), ("a", 3, 3), ("b", 1, 8))
        # [0, 10) is closed by now, so that only the later window continues.
        push(d, ("a", 15, 4), ("a", 11, 5), ("a", 2, 6))
        d.crash()
        for table in ("tumbling", "sliding"):
            found = view(d, table, "chain", "n")
            assert found == [("a", 0, 10, " 2 1 3", 3), ("a", 10, 20, " 9 5 4", 3), ("b", 0, 10, " 8", 1)]
            assert len(d.late(table)) == 1
