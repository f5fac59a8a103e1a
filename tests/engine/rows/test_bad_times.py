"""Event times of clocks that were never set, or read in the wrong unit: rejected, in every kind of table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import drive

pytestmark = pytest.mark.jvm

SCHEMA = "k string, t timestamp"
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(microseconds=1)
UNSET = "is not after 1970-01-01T00:00:00Z; the usual cause is a clock that was not set"


def every_kind() -> tuple[kf.App, list[str]]:
    """A table of each kind over one stream; each has a column `n`, but for the one of matches."""
    app = kf.App("times")
    s = app.stream("s", kf.rows([]), schema=SCHEMA, time="t", future=None)
    other = app.stream("other", kf.rows([]), schema=SCHEMA, time="t")
    by = s.by("k")
    by.table("running", n="count(*)")
    by.table("folded", n=kf.fold(zero={"n": "0"}, update={"n": "state.n + 1"}))
    by.table("ttl", n="count(*)", ttl="100000 days")
    by.tumbling("1 minute").table("tumbling", n="count(*)")
    by.session("1 minute").table("session", n="count(*)")
    by.rolling("1 minute").table("rolling", n="count(*)")
    s.join(other, on="k", within="1 minute", how="left").by("k").table("joined", n="count(*)")
    s.distinct("k", "t", within="1 minute").by("k").table("distinct", n="count(*)")
    s.union(other).by("k").tumbling("1 minute").table("union", n="count(*)")
    moved = s.transform(lambda frame: frame.where("k <> 'none'"))
    moved.by("k").tumbling("1 minute").table("transformed", n="count(*)")
    here = other.by("k").latest().table("others")
    s.enrich(here, on="k", as_of="event", wait="1 minute").by("k").table("enriched", n="count(*)")
    by.pattern("matched", kf.step("a", "k = 'a'"), within="1 minute")
    return app, [t.name for t in app.spec().tables if t.name != "others"]


def test_a_time_that_is_not_after_1970_is_rejected_in_every_kind_of_table() -> None:
    app, tables = every_kind()
    with drive(app) as d:
        times = [FIRST, FIRST - timedelta(days=1), FIRST + STEP, FIRST + timedelta(minutes=5)]
        d.push("s", [{"k": "a", "t": time} for time in times])
        d.push("s", ['{"k": "a", "t": 1767225600000}'])
        for stream in ("s", "other"):
            d.advance(stream, FIRST + timedelta(hours=1))
        expected = [
            "event time +57971-02-25T00:00:00Z is after the year 9998; it looks like epoch milliseconds read "
            "as seconds: write seconds, or a text such as 2026-01-01T00:00:00Z",
            f"event time 1969-12-31T00:00:00Z {UNSET}",
            f"event time 1970-01-01T00:00:00Z {UNSET}",
        ]
        for table in tables:
            assert sorted(r["reason"] for r in d.rejected(table)) == expected, table
            found: list[Any] = [row.get("n", 1) for row in d.rows(table)]
            assert sum(found) == 1 if table == "rolling" else sum(found) == 2, (table, found)
            assert d.late(table) == [], table
        assert len(d.rejected("s")) == 3, "listed once, though twelve tables reject them"


def test_a_stream_that_lies_before_1970_is_rejected_and_does_not_wait_for_ever() -> None:
    app = kf.App("old")
    app.stream("s", kf.rows([]), schema=SCHEMA, time="t").by("k").tumbling("1 hour").table("t", n="count(*)")
    with drive(app) as d:
        d.push("s", [{"k": "a", "t": datetime(1960, 1, day, tzinfo=UTC)} for day in range(1, 10)])
        assert d.rows("t") == []
        assert len(d.rejected("t")) == 9
