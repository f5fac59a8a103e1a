"""Windows at their edges: what can't be computed, times that can't be, streams of a union, other stages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import keyfold as kf
from keyfold.engine.batch import late_replay
from keyfold.engine.polling import wait_until
from keyfold.errors import BadExpression, StateMismatch
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

SCHEMA = "k string, v bigint, at timestamp"
MOST = 2**63 - 1


def at(second: float) -> str:
    return datetime.fromtimestamp(1_767_225_600 + second, UTC).isoformat()


def row(k: str, v: int, second: float) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at(second)}


def app_of(declare: Any, **stream: Any) -> kf.App:
    app = kf.App("edges")
    declare(app.stream("s", kf.rows([]), schema=SCHEMA, time="at", **stream))
    return app


def finals(d: Driver, table: str = "t") -> list[tuple[Any, ...]]:
    return [tuple(c.values())[1:] for c in d.changes(table) if c["_op"] == "final"]


def test_a_window_whose_panes_overflow_together_is_rejected_and_the_others_close():
    app = app_of(
        lambda s: s.by("k").sliding("10 seconds", every="5 seconds").table("t", total="sum(v)", emit="final")
    )
    with drive(app) as d:
        d.push("s", [row("a", MOST, 1), row("a", MOST, 6), row("b", 1, 1)])
        d.push("s", [row("b", 2, 100)])
        # The window with both panes has no sum; those with one of them have.
        assert sorted(value for key, *_, value in finals(d) if key == "a") == [MOST, MOST]
        (refused,) = d.rejected("t")
        assert "overflow" in refused["reason"]
        assert refused["raw"] == "the window from 2026-01-01T00:00:00Z to 2026-01-01T00:00:10Z"
        d.restart()
        assert len(d.rows("t")) == 4


def test_a_replayed_row_that_does_not_fit_changes_nothing():
    app = app_of(
        lambda s: s.by("k").sliding("10 seconds", every="5 seconds").table("t", total="sum(v)", keep="1 day")
    )
    with drive(app) as d:
        d.push("s", [row("a", 1, 11), row("a", MOST - 1, 16), row("b", 0, 100)])
        before = d.rows("t")
        # Fits into [5, 15) and not into [10, 20): it is in neither.
        d.push("s", [row("a", 2, 12)])
        assert len(d.late("t")) == 1
        late_replay.replay(d.handle.home.table("t"), 86_400_000, None)
        d.handle.drain()
        assert d.rows("t") == before
        (refused,) = d.rejected("t")
        assert "overflow" in refused["reason"]
        assert '"v":2' in refused["raw"]


def test_a_closed_session_that_grows_both_ways_in_one_replay_is_one_session():
    app = app_of(lambda s: s.by("k").session("5 seconds").table("t", n="count(*)", keep="1 day"))
    with drive(app) as d:
        d.push("s", [row("a", 1, 10), row("a", 1, 14)])
        d.push("s", [row("b", 1, 100)])
        d.push("s", [row("a", 1, 7)])
        d.push("s", [row("a", 1, 18)])
        assert len(d.late("t")) == 2
        d.changes("t")
        # While nothing reads, so that both files are of one batch.
        d.handle.stop()
        late_replay.replay(d.handle.home.table("t"), 86_400_000, None)
        d.restart()
        assert [r["n"] for r in d.rows("t") if r["k"] == "a"] == [4]
        assert [c["_op"] for c in d.changes("t")] == ["delete", "final"]


@pytest.mark.parametrize("arm", ["transform", "union"])
def test_a_clock_that_is_ahead_is_rejected_by_later_stages_too(arm: str):
    app = kf.App("edges")
    one = app.stream("s", kf.rows([]), schema=SCHEMA, time="at")
    two = app.stream("u", kf.rows([]), schema=SCHEMA, time="at")
    stream = one.transform(lambda frame: frame.where("v > 0")) if arm == "transform" else one.union(two)
    stream.by("k").tumbling("10 seconds").table("t", n="count(*)")
    with drive(app) as d:
        d.push("s", [row("a", 1, 1), {"k": "a", "v": 1, "at": "2999-01-01T00:00:00Z"}])
        d.push("s", [row("a", 1, 2)])
        assert [r["n"] for r in d.rows("t")] == [2]
        (refused,) = d.rejected("t")
        assert refused["reason"] == "event time 2999-01-01T00:00:00Z is too far in the future"


def test_an_impossible_time_moves_no_watermark_even_without_a_bound():
    app = app_of(lambda s: s.by("k").tumbling("10 seconds").table("t", n="count(*)"), future=None)
    with drive(app) as d:
        d.push("s", [row("a", 1, 1), {"k": "a", "v": 1, "at": "9999-06-01T00:00:00Z"}])
        d.push("s", [row("a", 1, 2)])
        assert [r["n"] for r in d.rows("t")] == [2]
        (refused,) = d.rejected("t")
        assert refused["reason"] == "event time 9999-06-01T00:00:00Z is after the year 9998"


def test_a_transform_may_not_make_the_time_something_else():
    def as_date(frame: DataFrame) -> DataFrame:
        return frame.withColumn("at", F.col("at").cast("date"))

    app = app_of(lambda s: s.transform(as_date).by("k").tumbling("10 seconds").table("t", n="count(*)"))
    with (
        pytest.raises(
            BadExpression, match="changed the type of the stream's time at, which must be a timestamp"
        ),
        drive(app),
    ):
        pass


def test_a_silent_stream_of_a_union_holds_back_no_other():
    app = kf.App("edges")
    one = app.stream("s", kf.rows([]), schema=SCHEMA, time="at")
    two = app.stream("u", kf.rows([]), schema=SCHEMA, time="at")
    one.union(two).by("k").tumbling("1 second").table("t", n="count(*)", idle="2 seconds")
    with drive(app) as d:

        def closed() -> bool:
            d.push("s", [{"k": "a", "v": 1, "at": datetime.now(UTC)}])
            return bool(finals(d))

        assert wait_until(closed, 60)


def test_a_late_row_without_a_key_is_rejected_alone():
    app = app_of(lambda s: s.by("k").tumbling("10 seconds").table("t", n="count(*)"))
    with drive(app) as d:
        d.push("s", [row("a", 1, 100)])
        d.push("s", [{"k": None, "v": 1, "at": at(1)}])
        assert d.late("t") == []
        assert [r["reason"] for r in d.rejected("t")] == ["key k is null"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"keep": "1 day"}, {"keep": "2 days"}),
        ({"keep": "1 day"}, {}),
        ({}, {"idle": "1 minute"}),
        ({"emit": "changes"}, {"emit": "final"}),
    ],
)
def test_what_state_and_log_depend_on_may_not_change(before: Any, after: Any, tmp_path: Any):
    def app(options: Any) -> kf.App:
        return app_of(lambda s: s.by("k").session("10 seconds").table("t", n="count(*)", **options))

    with drive(app(before), home=tmp_path) as d:
        d.push("s", [row("a", 1, 1)])
    with pytest.raises(StateMismatch), drive(app(after), home=tmp_path):
        pass


def test_rolling_panes_count_ttl_from_the_newest_row():
    app = app_of(
        lambda s: s.by("k").rolling("2 hours", every="1 hour").table("t", n="count(*)", ttl="30 minutes")
    )
    with drive(app) as d:
        d.push("s", [row("a", 1, 3540)])
        d.advance("s", at(3600 + 60))
        assert [r["n"] for r in d.rows("t")] == [1]
        d.advance("s", at(3540 + 1801))
        assert d.rows("t") == []
