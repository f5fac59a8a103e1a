"""Rows that come after their windows closed: what is written down, replays, expiry, and silent streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.batch import late_replay
from keyfold.engine.log.changes import rows as changed_rows
from keyfold.engine.polling import wait_until
from keyfold.errors import QueryError
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR_MS = 3_600_000


def app_of(lateness: str | int = 0) -> tuple[kf.App, Any]:
    app = kf.App("tardy")
    schema = "k string, x bigint, t timestamp"
    return app, app.stream("rows", kf.rows([]), schema=schema, time="t", late=lateness)


def push(d: Driver, *found: tuple[str, float, int]) -> None:
    d.push("rows", [{"k": k, "t": ZERO + t * SECOND, "x": x} for k, t, x in found])


def shown(row: dict[str, Any]) -> tuple[Any, ...]:
    op = (row["_op"],) if "_op" in row else ()
    values = () if op == ("delete",) else (row["n"], row["total"])
    bounds = [(row[b] - ZERO) / SECOND for b in ("window_start", "window_end")]
    return *op, row["k"], *bounds, *values


def view(d: Driver, table: str) -> list[tuple[Any, ...]]:
    return [shown(r) for r in d.rows(table)]


def changes(d: Driver, table: str) -> list[tuple[Any, ...]]:
    return [shown(c) for c in d.changes(table)]


def count(d: Driver, table: str) -> int:
    found: int = d.handle.status()["tables"][table]["late"]
    return found


def replay(d: Driver, table: str, keep_ms: int = HOUR_MS, batches: Any = None) -> late_replay.Replayed:
    """As `keyfold side replay late` does, and returns when what it sent is folded."""
    watermark = d.handle.status()["tables"][table]["watermark"]
    done = late_replay.replay(d.handle.home.table(table), keep_ms, watermark, batches)
    d.handle.drain()
    return done


COLUMNS = {"n": "count(*)", "total": "sum(x)"}


# What is written down


def test_a_late_row_is_kept_with_what_it_missed_and_by_how_much() -> None:
    app, rows = app_of("5 seconds")
    rows.by("k").tumbling("10 seconds").table("tumbling", COLUMNS)
    rows.by("k").sliding("10 seconds", every="4 seconds").table("sliding", COLUMNS)
    rows.by("k").session("10 seconds").table("session", COLUMNS)
    rows.by("k").table("running", COLUMNS)
    with drive(app) as d:
        push(d, ("a", 27.5, 1))
        before = datetime.now(UTC)
        # The watermark is 22.5.
        d.push("rows", [{"k": "a", "x": 7, "t": "2026-01-01T00:00:13.123456Z"}])
        d.crash()
        watermark = ZERO + 22.5 * SECOND
        expected = {
            "tumbling": (1, [(10, 20)], 2.5),
            "sliding": (3, [(4, 14), (8, 18), (12, 22)], 0.5),
        }
        for table, (missed, windows, late_by) in expected.items():
            (row,) = d.late(table)
            assert row["time"] == ZERO + timedelta(seconds=13, microseconds=123456)
            assert row["watermark"] == watermark
            assert row["missed"] == missed
            assert row["late_by"] == late_by
            bounds = [
                tuple((w[b] - ZERO) / SECOND for b in ("window_start", "window_end")) for w in row["windows"]
            ]
            assert bounds == windows
            assert row["stream"] == "rows"
            assert "closed" in row["reason"]
            raw = json.loads(row["raw"])
            assert (raw["k"], raw["x"]) == ("a", 7)
            assert datetime.fromisoformat(raw["t"]) == row["time"], "to the microsecond"
            assert before <= row["at"] <= datetime.now(UTC)
            (manifest,) = [m for m in d.handle.hooks[table].log.after(-1) if m.of_kind("late")]
            assert manifest.batch == row["batch"]
            assert count(d, table) == 1
        # Its session, up to 23.123456, is open; a running table refuses nothing.
        assert [d.late(t) for t in ("session", "running")] == [[], []]
        assert d.rows("running")[0]["n"] == 2
        assert d.rejected("rows") == []
        d.restart()
        assert [count(d, table) for table in ("tumbling", "sliding", "session")] == [1, 1, 0]
        with pytest.raises(QueryError, match="stream"):
            d.late("rows")


def test_of_very_many_missed_windows_the_first_are_listed() -> None:
    app, rows = app_of()
    rows.by("k").sliding("500 seconds", every="1 second").table("t", COLUMNS, emit="final")
    with drive(app) as d:
        push(d, ("a", 2000, 1))
        push(d, ("a", 1000, 1), ("a", 1700, 2))
        first, second = d.late("t")
        if first["missed"] < second["missed"]:
            first, second = second, first
        assert (first["missed"], second["missed"]) == (500, 300)
        assert first["windows"][0] == {
            "window_start": ZERO + 501 * SECOND,
            "window_end": ZERO + 1001 * SECOND,
        }
        assert len(first["windows"]) == len(second["windows"]) == 100
        # 1700 is in windows that end up to 2200; of those up to 2000 are over.
        assert (first["late_by"], second["late_by"]) == (500, 0)
        d.advance("rows", ZERO + 5000 * SECOND)
        found = {row[2]: row[3] for row in view(d, "t")}
        assert len(found) == 500, "ends from 2001 to 2200 with both rows, then up to 2500"
        assert [found[end] for end in (2001, 2200, 2201, 2500)] == [2, 2, 1, 1]


def test_late_rows_of_every_key_and_batch_are_counted() -> None:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("t", COLUMNS)
    with drive(app) as d:
        push(d, ("a", 100, 1))
        push(d, *((k, t, 1) for k in "abc" for t in (1, 2, 99, 105)))
        assert count(d, "t") == len(d.late("t")) == 9
        push(d, ("d", 3, 1))
        d.crash()
        assert count(d, "t") == len(d.late("t")) == 10
        assert [row[0] for row in view(d, "t")] == ["a", "b", "c"]
        assert len({r["batch"] for r in d.late("t")}) == 2


# Replays


def kept_app() -> kf.App:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("live", COLUMNS, keep="1 hour")
    rows.by("k").tumbling("10 seconds").table("finals", COLUMNS, keep="1 hour", emit="final")
    rows.by("k").sliding("10 seconds", every="5 seconds").table("sliding", COLUMNS, keep="1 hour")
    return app


TABLES = ("live", "finals", "sliding")


def tardy(d: Driver) -> None:
    """Two windows of a that are closed, and rows that came too late for them, or for one that never was."""
    push(d, ("a", 1, 1), ("a", 12, 2))
    push(d, ("a", 30, 4))
    push(d, ("a", 3, 8), ("b", 4, 16), ("a", 31, 32))
    push(d, ("a", 13, 64), ("a", 28, 128))


def test_a_replay_corrects_closed_windows_once() -> None:
    with drive(kept_app()) as d:
        tardy(d)
        closed = [("a", 0, 10, 1, 1), ("a", 10, 20, 1, 2)]
        assert view(d, "finals") == closed
        assert [len(d.late(t)) for t in TABLES] == [4, 4, 4]
        for table in TABLES:
            d.changes(table)
        corrected = [("a", 0, 10, 2, 9), ("a", 10, 20, 2, 66), ("a", 20, 30, 1, 128), ("b", 0, 10, 1, 16)]
        for table in ("live", "finals"):
            assert replay(d, table) == late_replay.Replayed(sent=4)
            assert sorted(changes(d, table)) == [("final", *row) for row in corrected]
        assert view(d, "finals") == corrected
        assert view(d, "live") == sorted([*corrected, ("a", 30, 40, 2, 36)])

        # The row at 28 was in time for [25, 35) and has missed [20, 30) alone.
        assert [r["missed"] for r in d.late("sliding") if json.loads(r["raw"])["x"] == 128] == [1]
        replay(d, "sliding")
        found = changes(d, "sliding")
        assert {c[0] for c in found} == {"final"}
        newest = {c[1:4]: c[4:] for c in found}
        assert newest == {
            ("a", -5, 5): (2, 9),
            ("a", 0, 10): (2, 9),
            ("b", -5, 5): (1, 16),
            ("b", 0, 10): (1, 16),
            ("a", 5, 15): (2, 66),
            ("a", 10, 20): (2, 66),
            ("a", 20, 30): (1, 128),
        }
        assert {row[1:3]: row[3:] for row in view(d, "sliding") if row[0] == "a"}[25, 35] == (3, 164)

        # Once, even if it is asked for again, and after a restart and a crash.
        before = {t: d.rows(t) for t in TABLES}
        for again in (lambda: None, d.restart, d.crash):
            again()
            assert replay(d, "finals") == late_replay.Replayed(sent_before=4)
            replay(d, "sliding")
            assert {t: d.rows(t) for t in TABLES} == before
            assert d.changes("finals") == d.changes("sliding") == []
        assert [count(d, t) for t in TABLES] == [4, 4, 4], "a replayed row is not late once more"
        assert [d.rejected(t) for t in TABLES] == [[], [], []]

        # Open windows go on as if nothing had been.
        push(d, ("a", 32, 256))
        d.advance("rows", ZERO + 60 * SECOND)
        assert ("final", "a", 30, 40, 3, 292) in changes(d, "finals")

        # What a replay made is kept as long as the rest.
        d.advance("rows", ZERO + timedelta(hours=1) + 10 * SECOND)
        gone = [("delete", "a", 0, 10), ("delete", "b", 0, 10)]
        assert sorted(changes(d, "finals")) == gone
        d.advance("rows", ZERO + timedelta(hours=2))
        assert [d.rows(t) for t in TABLES] == [[], [], []]


def test_a_crash_while_a_replay_is_folded_counts_it_once() -> None:
    with drive(kept_app()) as d:
        tardy(d)
        replay(d, "finals")
        d.crash()
        d.crash()
        corrected = [("a", 0, 10, 2, 9), ("a", 10, 20, 2, 66), ("a", 20, 30, 1, 128), ("b", 0, 10, 1, 16)]
        assert view(d, "finals") == corrected
        finals = [c for c in changes(d, "finals") if c[0] == "final"]
        assert len(finals) == 2 + 4


def test_a_replay_while_the_app_is_down_is_folded_when_it_starts(tmp_path: Path) -> None:
    with drive(kept_app(), home=tmp_path) as d:
        tardy(d)
        home = d.handle.home.table("finals")
        first = min(r["batch"] for r in d.late("finals"))
    assert late_replay.replay(home, HOUR_MS, ZERO + 31 * SECOND, [first]) == late_replay.Replayed(sent=2)
    with drive(kept_app(), home=tmp_path) as d:
        assert view(d, "finals") == [("a", 0, 10, 2, 9), ("a", 10, 20, 1, 2), ("b", 0, 10, 1, 16)]
        # The rest, later.
        assert replay(d, "finals") == late_replay.Replayed(sent=2, sent_before=2)
        assert view(d, "finals")[1] == ("a", 10, 20, 2, 66)


def test_a_replayed_row_joins_the_closed_session_that_it_belonged_to() -> None:
    app, rows = app_of()
    rows.by("k").session("5 seconds").table("t", COLUMNS, keep="1 hour")
    with drive(app) as d:
        push(d, ("a", 0, 1), ("a", 8, 2))
        push(d, ("a", 50, 4))
        push(d, ("a", 4, 8), ("a", 1, 16))
        assert len(d.late("t")) == 2
        d.changes("t")
        assert replay(d, "t") == late_replay.Replayed(sent=2)
        # [0, 5), 1 and 4 and [8, 13) are at most 5 apart, one after the other.
        assert view(d, "t") == [("a", 0, 13, 4, 27), ("a", 50, 55, 1, 4)]
        found = changes(d, "t")
        assert ("final", "a", 0, 13, 4, 27) in found
        assert {("delete", "a", 0, 5), ("delete", "a", 8, 13)} <= set(found)
        assert replay(d, "t") == late_replay.Replayed(sent_before=2)
        assert changes(d, "t") == []


def test_folds_and_aggregates_of_every_family_take_replays() -> None:
    app, rows = app_of()
    columns = {
        **COLUMNS,
        "middle": "percentile(x, 0.5)",
        "different": "count(distinct x)",
        "xs": "sort_array(collect_list(x))",
    }
    chain = kf.fold(zero={"s": "''"}, update={"s": "concat(state.s, ' ', x)"})
    rows.by("k").tumbling("10 seconds").table("merged", columns, keep="1 hour")
    rows.by("k").tumbling("10 seconds").table("folded", {**columns, "chain": chain}, keep="1 hour")
    with drive(app) as d:
        push(d, ("a", 1, 1), ("a", 2, 9))
        push(d, ("a", 30, 1))
        push(d, ("a", 5, 9), ("a", 4, 3))
        for table in ("merged", "folded"):
            d.changes(table)
            replay(d, table)
            assert [c[:4] for c in changes(d, table)] == [("final", "a", 0, 10)], "one for both rows"
            row = d.rows(table)[0]
            assert (row["n"], row["total"], row["middle"], row["different"]) == (4, 22, 6.0, 3)
            assert row["xs"] == [1, 3, 9, 9]
        # Rows that are replayed come after those that were in time.
        assert d.rows("folded")[0]["chain"] in (" 1 9 3 9", " 1 9 9 3")


def test_replayed_rows_go_through_all_that_stands_before_the_table() -> None:
    """Also where the columns of the stream, or its time, are no longer there; to the last microsecond."""
    app = kf.App("tardy")
    schema = """key string, x bigint, t timestamp, m map<string,array<double>>, b binary, d decimal(20,3),
        `odd name` string"""
    rows = app.stream("rows", kf.rows([]), schema=schema, time="t")
    other = app.stream("other", kf.rows([]), schema="key string, x bigint, seen timestamp", time="seen")
    keep = {"keep": "1 hour"}
    sums = {"n": "count(*)", "total": "sum(y)"}
    chosen = rows.where("x > 0").select(k="upper(key)", y="x * 2")
    chosen.by("k").tumbling("10 seconds").table("selected", sums, **keep)
    made = rows.transform(lambda df: df.selectExpr("key as k", "x * 3 as y", "t"))
    made.by("k").tumbling("10 seconds").table("transformed", sums, **keep)
    both = rows.select(k="key", y="x").union(other.select(k="key", y="x * 100"))
    both.by("k").tumbling("10 seconds").table("united", sums, **keep)
    wide = {"n": "count(*)", "total": "sum(x)", "b": "max(b)", "d": "sum(d)", "m": "max(m['q'])"}
    wide |= {"odd": "max(`odd name`)", "newest": "max(t)"}
    rows.by(k="key").tumbling("10 seconds").table("wide", wide, **keep)
    tables = ("selected", "transformed", "united", "wide")

    def row(t: timedelta, x: int) -> dict[str, Any]:
        more = {"m": {"q": [1.5]}, "b": b"\x01\xff", "d": "1.125", "odd name": "ü'\"\\"}
        return {"key": "a", "x": x, "t": ZERO + t, **more}

    with drive(app) as d:
        for t in (1, 100):
            d.push("rows", [row(t * SECOND, 1)])
            d.push("other", [{"key": "a", "x": 1, "seen": ZERO + t * SECOND}])
        newest = timedelta(seconds=2, microseconds=1)
        d.push("rows", [row(2 * SECOND, 5), row(3 * SECOND, -1), row(newest, 1)])
        d.push("other", [{"key": "a", "x": 7, "seen": ZERO + 4 * SECOND}])
        assert [len(d.late(t)) for t in tables] == [2, 3, 4, 3]
        for table in tables:
            replay(d, table)
        found = {t: d.rows(t)[0] for t in tables}
        assert {t: (r["k"], r["n"], r["total"]) for t, r in found.items()} == {
            "selected": ("A", 3, 14),
            "transformed": ("a", 4, 18),
            "united": ("a", 6, 806),
            "wide": ("a", 4, 6),
        }
        whole = [found["wide"][name] for name in ("b", "d", "m", "odd", "newest")]
        assert whole == [b"\x01\xff", Decimal("4.500"), [1.5], "ü'\"\\", ZERO + 3 * SECOND]
        assert [d.rejected(t) for t in tables] == [[], [], [], []]


# Expiry


@pytest.mark.parametrize("emit", ["changes", "final"])
def test_a_closed_window_goes_when_it_has_been_kept_for_long_enough(emit: Any) -> None:
    app, rows = app_of("5 seconds")
    for name in ("tumbling", "session"):
        keyed = rows.by("k")
        windows = keyed.tumbling("10 seconds") if name == "tumbling" else keyed.session("9 seconds")
        windows.table(name, COLUMNS, keep="20 seconds", emit=emit)
    with drive(app) as d:
        push(d, ("a", 1, 1), ("b", 1, 1))
        for table in ("tumbling", "session"):
            assert view(d, table) == (
                [("a", *WINDOWS[table], 1, 1), ("b", *WINDOWS[table], 1, 1)] if emit == "changes" else []
            )
        push(d, ("a", 15, 2))
        for table in ("tumbling", "session"):
            assert ("final", "b", *WINDOWS[table], 1, 1) in changes(d, table)
        # To the millisecond: 10 + 20 is 30, and the watermark comes 5 later.
        d.advance("rows", ZERO + 34.999 * SECOND)
        for table in ("tumbling", "session"):
            assert view(d, table)[0][1:3] == WINDOWS[table]
            assert "delete" not in {c[0] for c in changes(d, table)}
        d.advance("rows", ZERO + 35 * SECOND)
        d.crash()
        for table in ("tumbling", "session"):
            start = {"tumbling": 10, "session": 15}[table]
            assert [row[:2] for row in view(d, table)] == [("a", start)]
            deleted = [("delete", k, *WINDOWS[table]) for k in "ab"]
            assert sorted(changes(d, table)) == deleted
        # Closed, kept and gone in one go; what is gone takes no replay, and the state is empty.
        push(d, ("c", 40, 1))
        d.advance("rows", ZERO + 5000 * SECOND)
        for table in ("tumbling", "session"):
            assert view(d, table) == []
            assert [c[0] for c in changes(d, table) if c[1] == "c"] == (
                ["upsert", "final", "delete"] if emit == "changes" else ["final", "delete"]
            )
        push(d, ("a", 3, 1))
        assert replay(d, "tumbling", keep_ms=20_000).sent == 0
        assert view(d, "tumbling") == []
        assert state_keys(d, "tumbling") == 0


WINDOWS = {"tumbling": (0, 10), "session": (1, 10)}


def state_keys(d: Driver, table: str) -> int:
    home = d.handle.home.table(table)
    state = d.handle.spark.read.format("statestore").option("path", home.checkpoint.as_uri())
    found: int = state.option("stateVarName", "state").load().count()
    return found


def test_without_keep_closed_windows_stay_in_the_view_and_leave_the_state() -> None:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("tumbling", COLUMNS)
    rows.by("k").sliding("10 seconds", every="2 seconds").table("sliding", COLUMNS, emit="final")
    rows.by("k").session("10 seconds").table("session", COLUMNS)
    with drive(app) as d:
        push(d, *((f"k{n}", n, n) for n in range(9)))
        assert [state_keys(d, t) for t in ("tumbling", "sliding", "session")] == [9, 9, 9]
        before = d.rows("tumbling")
        d.advance("rows", ZERO + 10_000 * SECOND)
        assert [state_keys(d, t) for t in ("tumbling", "sliding", "session")] == [0, 0, 0]
        assert d.rows("tumbling") == before
        assert (len(d.rows("sliding")), len(d.rows("session"))) == (45, 9)
        assert "delete" not in {c[0] for t in ("tumbling", "sliding", "session") for c in changes(d, t)}


# Silence


def test_a_silent_stream_closes_its_windows_by_the_clock() -> None:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("idle", COLUMNS, idle="1 second", emit="final")
    rows.by("k").session("10 seconds").table("session", COLUMNS, idle="1 second")
    rows.by("k").tumbling("10 seconds").table("patient", COLUMNS, emit="final")
    with drive(app) as d:
        push(d, ("a", 1, 1), ("b", 2, 2))
        assert wait_until(lambda: len(d.rows("idle")) == 2, 60)
        assert view(d, "idle") == [("a", 0, 10, 1, 1), ("b", 0, 10, 1, 2)]
        assert wait_until(lambda: finals(d, "session") == {"a", "b"}, 60)
        assert d.rows("patient") == []
        d.restart()
        # The watermark has followed the clock, so that a row of the past is late, and one of now is not.
        now = datetime.now(UTC) + timedelta(minutes=5)
        d.push("rows", [{"k": "a", "t": ZERO + 3 * SECOND, "x": 1}, {"k": "a", "t": now, "x": 5}])
        (row,) = d.late("idle")
        assert row["time"] == ZERO + 3 * SECOND
        assert row["late_by"] > 0
        # Minutes ahead of the clock: not closed by it.
        assert [r["total"] for r in d.rows("idle")] == [1, 2]
        assert d.late("patient") == []
        assert d.rejected("rows") == []


def finals(d: Driver, table: str) -> set[str]:
    """Keys that have had a final, whoever has read the changes."""
    hook = d.handle.hooks[table]
    found = changed_rows(hook.log, hook.schema)
    return {c["k"] for c in found if c["_op"] == "final"}


def test_silence_counts_from_the_last_row_and_keeps_lateness() -> None:
    app, rows = app_of("1 hour")
    rows.by("k").tumbling("1 minute").table("t", COLUMNS, idle="1 second")
    with drive(app) as d:
        now = datetime.now(UTC)
        d.push("rows", [{"k": "new", "t": now - timedelta(minutes=50), "x": 1}])
        d.push("rows", [{"k": "old", "t": now - timedelta(hours=1, minutes=30), "x": 1}])
        assert wait_until(lambda: "old" in finals(d, "t"), 60)
        # The clock less an hour: what is 50 minutes old is still open.
        assert finals(d, "t") == {"old"}
        d.push("rows", [{"k": "new", "t": now - timedelta(minutes=50), "x": 2}])
        assert [r["total"] for r in d.rows("t") if r["k"] == "new"] == [3]
        assert d.late("t") == []
