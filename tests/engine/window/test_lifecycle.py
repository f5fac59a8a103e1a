"""Windows in their life: what they refuse, when they close, how they are read, restarted and paid for."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.errors import QueryFailed, StateMismatch
from keyfold.testing import Driver, drive, shared_session
from tests.engine.models.window_rows import KINDS, SCHEMA, SECOND, ZERO, app_of, changes, push, shown, view
from tests.log_files import empty_logs

pytestmark = pytest.mark.jvm


# What can't be used


def test_a_row_on_which_an_expression_throws_is_rejected_and_the_rest_goes_on() -> None:
    app, rows = app_of(schema="k string, x string, t timestamp")
    for name, declare in KINDS.items():
        declare(rows.by("k")).table(name, n="count(*)", total="sum(cast(x as int))")
    KINDS["tumbling"](rows.by("k")).table("strict", n="sum(cast(x as int))", on_error="fail")
    with drive(app) as d:
        push(d, ("a", 1, "1"), ("a", 6, "2"))
        with pytest.raises(QueryFailed, match="strict"):
            push(d, ("a", 7, "oops"), ("a", 8, "4"), (None, 8, "8"))
        for query in [d.handle.queries[name] for name in KINDS]:
            query.processAllAvailable()
        for name in KINDS:
            newest = max(d.rows(name), key=lambda r: r["n"])
            assert (newest["n"], newest["total"]) == (3, 7), name
            assert sorted(r["reason"].split()[0] for r in d.rejected(name)) == ["[CAST_INVALID_INPUT]", "key"]


def test_times_that_cannot_be_right_are_rejected_and_close_nothing() -> None:
    app, rows = app_of(late="1 second")
    near = app.stream("near", kf.rows([]), schema=SCHEMA, time="t", future="1 hour")
    for name, declare in KINDS.items():
        declare(rows.by("k")).table(name, n="count(*)")
    near.by("k").tumbling("1 day").table("bounded", n="count(*)")
    now = datetime.now(UTC)
    with drive(app) as d:
        push(d, ("a", 1))
        bad = [None, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", (now + timedelta(days=2)).isoformat()]
        d.push("rows", [{"k": "a", "t": t, "x": n} for n, t in enumerate([*bad, ZERO + 2 * SECOND])])
        for name in KINDS:
            assert max(r["n"] for r in d.rows(name)) == 2, name
            reasons = {json.loads(r["raw"])["x"]: r["reason"] for r in d.rejected(name)}
            assert reasons.keys() == {0, 1, 2, 3}, name
            assert "event time" in reasons[0]
            assert "null" in reasons[0]
            assert "9999" in reasons[1]
            assert "0001" in reasons[2]
            assert "future" in reasons[3]
            assert d.late(name) == []
        assert len(d.rejected("rows")) == 4
        # Nothing was closed: the watermark is that of the rows that count.
        push(d, ("a", 3))
        for name in KINDS:
            assert max(r["n"] for r in d.rows(name)) == 3, name
            assert {c["_op"] for c in d.changes(name)} <= {"upsert", "delete"}
        # Half a day ahead is within the bound of one stream and not of the other.
        soon = now + timedelta(hours=12)
        d.push("rows", [{"k": "b", "t": soon}])
        d.push("near", [{"k": "b", "t": soon}, {"k": "b", "t": now}])
        assert {r["k"] for r in d.rows("tumbling")} == {"a", "b"}
        assert [r["n"] for r in d.rows("bounded")] == [1]
        assert ["future" in r["reason"] for r in d.rejected("near")] == [True]
        # To advance is the test's own word, and is not bounded.
        d.advance("rows", "2999-01-01T00:00:00Z")
        assert "final" in {c["_op"] for c in d.changes("session") if c["k"] == "b"}


# Closing


def test_windows_close_before_the_rows_of_the_batch_that_closes_them(tmp_path: Path) -> None:
    """With input waiting Spark runs no batch for timers alone, so that rows meet windows that are due."""
    batches = [[("a", 0), ("b", 0)], [("x", 100)], [("a", 3), ("a", 101), ("b", 99)]]
    for number, found in enumerate(batches):
        file = tmp_path / "in" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        lines = [json.dumps({"k": k, "x": 1, "t": (ZERO + t * SECOND).isoformat()}) for k, t in found]
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    app = kf.App("waiting")
    source = kf.files(tmp_path / "in", maxFilesPerTrigger=1)
    keyed = app.stream("rows", source, schema=SCHEMA, time="t").by("k")
    for name in ("tumbling", "sliding", "session"):
        KINDS[name](keyed).table(name, n="count(*)")
        KINDS[name](keyed).table(f"{name}_final", n="count(*)", emit="final")
    expected = {
        "tumbling": [("a", 0, 10, 1), ("a", 100, 110, 1), ("b", 0, 10, 1), ("x", 100, 110, 1)],
        "session": [
            ("a", 0, 10, 1),
            ("a", 101, 111, 1),
            ("b", 0, 10, 1),
            ("b", 99, 109, 1),
            ("x", 100, 110, 1),
        ],
        "sliding": [
            *[("a", -5, 5, 1), ("a", 0, 10, 1), ("a", 95, 105, 1), ("a", 100, 110, 1), ("b", -5, 5, 1)],
            *[("b", 0, 10, 1), ("b", 95, 105, 1), ("x", 95, 105, 1), ("x", 100, 110, 1)],
        ],
    }
    with start.start(app.spec(), spark=shared_session(), home=tmp_path / "home") as handle:
        handle.drain()
        for name, rows in expected.items():
            assert [shown(r, "n") for r in handle.table(name).rows()] == rows, name
            closed = [row for row in rows if row[2] <= 101]
            assert [shown(r, "n") for r in handle.table(f"{name}_final").rows()] == closed, name
            missed = {
                (json.loads(r["raw"])["k"], (r["time"] - ZERO) / SECOND, r["missed"])
                for r in handle.late(name)
            }
            assert (
                missed
                == {
                    "tumbling": {("a", 3, 1), ("b", 99, 1)},
                    "sliding": {("a", 3, 2), ("b", 99, 1)},
                    "session": {("a", 3, 1)},
                }[name]
            )


def test_streams_in_a_union_close_windows_with_the_slowest() -> None:
    app = kf.App("both")
    left = app.stream("left", kf.rows([]), schema="k string, t timestamp", time="t")
    right = app.stream("right", kf.rows([]), schema="seen timestamp, k string", time="seen", late="5 seconds")
    both = left.select("k").union(right.select("k"))
    both.by("k").tumbling("10 seconds").table("t", n="count(*)", emit="final")
    with drive(app) as d:
        d.push("right", [{"k": "a", "seen": ZERO}])
        d.push("left", [{"k": "a", "t": ZERO + SECOND}, {"k": "a", "t": ZERO + 100 * SECOND}])
        assert d.rows("t") == []
        d.push("left", [{"k": "a", "t": ZERO + 2 * SECOND}])
        d.push("right", [{"k": "a", "seen": ZERO + 14 * SECOND}])
        assert d.rows("t") == []
        d.push("right", [{"k": "a", "seen": ZERO + 15 * SECOND}])
        assert view(d, "t") == [("a", 0, 10, 3)]
        d.push("left", [{"k": "a", "t": ZERO + 3 * SECOND}])
        assert [(r["time"] - ZERO) / SECOND for r in d.late("t")] == [3]


# Reading, restarting, cost


def test_a_view_is_read_by_key_and_by_range() -> None:
    app, rows = app_of()
    rows.by("k").tumbling("10 seconds").table("t", n="count(*)", total="sum(x)")
    with drive(app) as d:
        push(d, *((k, t, t) for k in "ab" for t in range(0, 50, 5)))
        assert [r["k"] for r in d.rows("t", where={"k": "a"})] == ["a"] * 5
        some = "k = 'a' and window_start >= '2026-01-01T00:00:10Z' and window_start < '2026-01-01T00:00:30Z'"
        assert [shown(r, "total") for r in d.rows("t", where=some)] == [("a", 10, 20, 25), ("a", 20, 30, 45)]
        newest = d.rows("t", where="k = 'b'", order_by="window_start desc", limit=1)
        assert [shown(r, "n") for r in newest] == [("b", 40, 50, 2)]
        one = d.get("t", "a", ZERO + 10 * SECOND, ZERO + 20 * SECOND)
        assert one is not None
        assert (one["n"], one["total"]) == (2, 25)
        assert d.get("t", "a", ZERO + 10 * SECOND, ZERO + 30 * SECOND) is None
        frame = d.handle.table("t").df(where="k = 'a'")
        assert dict(frame.dtypes) == {
            "k": "string",
            "window_start": "timestamp",
            "window_end": "timestamp",
            "n": "bigint",
            "total": "bigint",
        }
        assert frame.count() == 5


def test_windows_survive_restarts_and_their_views_are_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is open, kept or moving comes back from the state; what closed and isn't kept does not."""
    app, rows = app_of(late="5 seconds")
    for name, declare in KINDS.items():
        options = {"keep": "1 hour"} if name in ("tumbling", "sliding", "session") else {}
        declare(rows.by("k")).table(name, n="count(*)", total="sum(x)", **options)
    KINDS["tumbling"](rows.by("k")).table("forgetful", n="count(*)", total="sum(x)")
    KINDS["sliding"](rows.by("k")).table("quiet", n="count(*)", total="sum(x)", emit="final", keep="1 hour")
    tables = [*KINDS, "forgetful", "quiet"]
    with drive(app, home=tmp_path) as d:
        push(d, ("a", 1, 1), ("a", 8, 2), ("b", 3, 4))
        d.restart()
        push(d, ("a", 22, 8), ("b", 17, 16), ("c", 23, 32))
        before = {name: d.rows(name) for name in tables}
        assert view(d, "tumbling", "total") == [
            ("a", 0, 10, 3),
            ("a", 20, 30, 8),
            ("b", 0, 10, 4),
            ("b", 10, 20, 16),
            ("c", 20, 30, 32),
        ]
        assert {row[2] for row in view(d, "quiet")} == {5, 10, 15}
    views = tmp_path / "windows" / "views.db"
    shutil.move(views, tmp_path / "views.db")
    empty_logs(tmp_path / "windows")
    with drive(app, home=tmp_path) as d:
        assert "windows.forgetful: the view was missing, and has been rebuilt" in caplog.text
        assert "2 rows of closed windows are missing. A backup of views.db" in caplog.text
        assert len(caplog.records) == 1
        position = d.handle.table("forgetful").position()
        assert position is not None
        assert position.watermark == ZERO + 18 * SECOND, "by which a later rebuild knows what was closed"
        for name in tables:
            kept = [r for r in before[name] if name != "forgetful" or r["window_end"] > ZERO + 18 * SECOND]
            assert d.rows(name) == kept, name
        push(d, ("a", 24, 64), ("c", 19, 128))
        assert view(d, "forgetful", "total") == [
            ("a", 20, 30, 72),
            ("b", 10, 20, 16),
            ("c", 10, 20, 128),
            ("c", 20, 30, 32),
        ]
        assert {r["k"]: r["total"] for r in d.rows("last")} == {"a": 75, "b": 20, "c": 160}
        push(d, ("a", 31, 256))
        after = {name: d.rows(name) for name in tables}
    shutil.move(tmp_path / "views.db", views)
    empty_logs(tmp_path / "windows")
    caplog.clear()
    with drive(app, home=tmp_path) as d:
        # What was closed in the copy is right still; what has closed since is not known.
        assert view(d, "forgetful", "total") == [
            ("a", 0, 10, 3),
            ("a", 20, 30, 72),
            ("a", 30, 40, 256),
            ("b", 0, 10, 4),
            ("c", 20, 30, 32),
        ]
        assert "1 row of a closed window is missing, and so are windows that opened and closed" in caplog.text
        assert {name: d.rows(name) for name in tables if name != "forgetful"} == {
            name: rows for name, rows in after.items() if name != "forgetful"
        }


def test_windows_stay_as_they_were_declared(tmp_path: Path) -> None:
    """Only when a stream is idle may change, and which changes are emitted."""

    def app(size: str = "10 seconds", keep: str = "1 minute", idle: str = "1 hour", **options: Any) -> kf.App:
        app, rows = app_of()
        sliding = rows.by("k").sliding(size, every="5 seconds")
        sliding.table("t", n="count(*)", keep=keep, idle=idle, **options)
        return app

    with drive(app(), home=tmp_path) as d:
        push(d, ("a", 1), ("a", 11))
    others = {"window: ": app("20 seconds"), "keep: ": app(keep="2 minutes")}
    for difference, other in others.items():
        with pytest.raises(StateMismatch, match=difference), drive(other, home=tmp_path):
            pass
    with drive(app(idle="2 hours"), home=tmp_path) as d:
        assert view(d, "t") == [("a", -5, 5, 1), ("a", 0, 10, 1), ("a", 5, 15, 1), ("a", 10, 20, 1)]
        d.changes("t")
        d.advance("rows", ZERO + 20 * SECOND)
        assert changes(d, "t") == [("final", "a", 5, 15, 1), ("final", "a", 10, 20, 1)]
    with drive(app(emit="final"), home=tmp_path) as d:
        d.changes("t")
        push(d, ("a", 31))
        assert changes(d, "t") == []
        d.advance("rows", ZERO + 50 * SECOND)
        assert changes(d, "t") == [("final", "a", 25, 35, 1), ("final", "a", 30, 40, 1)]


def writes(d: Driver, table: str) -> dict[str, int]:
    """What was written to the state so far, by two counts of Spark's."""
    found = [op for p in d.handle.queries[table].recentProgress for op in p["stateOperators"]]
    puts = "rocksdbPutCount"
    return {
        "rows": sum(op["numRowsUpdated"] for op in found),
        "puts": sum(op["customMetrics"].get(puts, 0) for op in found),
    }


@pytest.mark.parametrize("emit", ["changes", "final"])
def test_state_writes_per_row_do_not_grow_with_windows_per_row(emit: str) -> None:
    """Every row is in a pane of its own, for both tables, and is in one window of the first and in sixty of
    the second: a row that is put into each of its windows would be written sixty times.
    """
    app, rows = app_of(late="1 hour")
    rows.by("k").sliding("10 seconds", every="10 seconds").table("single", n="count(*)", emit=emit)
    rows.by("k").sliding("60 seconds", every="1 second").table("sixty", n="count(*)", emit=emit)
    keys = [f"k{n}" for n in range(40)]
    with drive(app) as d:
        for batch in range(3):
            push(d, *((k, batch * 100 + t) for k in keys for t in range(0, 50, 10)))
        single, sixty = writes(d, "single"), writes(d, "sixty")
        for count in ("rows", "puts"):
            assert single[count] >= 3 * len(keys), "a count of nothing proves nothing"
            assert sixty[count] <= 1.2 * single[count], count
            assert sixty[count] <= 3 * 3 * 5 * len(keys), f"{count}: a few per row at most"
        d.advance("rows", ZERO + timedelta(days=1))
        assert len(d.rows("single")) == 15 * len(keys)
        assert len(d.rows("sixty")) == 3 * 100 * len(keys)
        # To close them costs what there are keys, and not what there are windows.
        for count in ("rows", "puts"):
            assert writes(d, "sixty")[count] - sixty[count] <= 3 * 5 * len(keys), count
