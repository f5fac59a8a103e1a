"""Keys that are forgotten: by event time where the stream has one, else by arrival."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.testing import Driver, drive, shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "k string, x int, at timestamp"


def at(clock: str) -> str:
    return f"2026-01-01T{clock}Z"


def row(k: str, clock: str | None, x: int = 1) -> dict[str, Any]:
    return {"k": k, "x": x, "at": None if clock is None else at(clock)}


def counts(d: Driver, table: str) -> dict[str, int]:
    return {r["k"]: r["n"] for r in d.rows(table)}


def ops(d: Driver, table: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for change in d.changes(table):
        found.setdefault(change["k"], []).append(change["_op"])
    return found


TABLES = ("sums", "folds")


def timed(late: str = "0 seconds") -> kf.App:
    """One table for each way of the kernel: state merged, and rows folded in order."""
    app = kf.App("timed")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA, time="at", late=late)
    # The time need not be among the columns that are left.
    rows.select("k", "x").by("k").table("sums", n="count(*)", ttl="1 hour")
    rows.select("x", "k").by("k").table(
        "folds", n=kf.fold(zero={"n": "0L"}, update={"n": "state.n + 1"}), ids="collect_set(x)", ttl="1 hour"
    )
    return app


def test_a_key_goes_when_its_newest_row_and_the_lifetime_reach_the_watermark() -> None:
    with drive(timed()) as d:
        d.push("rows", [row("a", "12:00:00"), row("b", "12:00:00")])
        d.push("rows", [row("b", "12:30:00")])
        # A row that is older than the newest one of its key counts and shortens nothing.
        d.push("rows", [row("b", "12:10:00")])
        d.advance("rows", at("12:59:59.999"))
        for table in TABLES:
            assert counts(d, table) == {"a": 1, "b": 3}
        d.advance("rows", at("13:00:00"))
        for table in TABLES:
            assert counts(d, table) == {"b": 3}, "exactly equal is over"
            assert ops(d, table) == {"a": ["upsert", "delete"], "b": ["upsert"] * 3}

        # The watermark of a batch is what earlier batches saw: b has not expired when this row of it arrives.
        d.push("rows", [row("b", "15:00:00"), row("a", "12:10:00")])
        for table in TABLES:
            assert counts(d, table) == {"b": 4}
            assert ops(d, table) == {"b": ["upsert"], "a": ["upsert", "delete"]}, (
                "a began again, then 13:10 expired"
            )

        d.push("rows", [row("a", "15:00:00")])
        d.crash()
        # Never refused for lateness, even where its lifetime is over when it comes.
        d.push("rows", [row("c", "09:00:00")])
        for table in TABLES:
            assert counts(d, table) == {"a": 1, "b": 4}
            assert ops(d, table) == {"a": ["upsert"], "c": ["upsert", "delete"]}
        d.crash()
        d.advance("rows", at("16:00:00"))
        d.crash()
        d.restart()
        for table in TABLES:
            assert counts(d, table) == {}
            assert ops(d, table) == {"a": ["delete"], "b": ["delete"]}
        d.push("rows", [row("b", "16:00:00")])
        for table in TABLES:
            assert counts(d, table) == {"b": 1}


def test_lateness_holds_the_watermark_back() -> None:
    with drive(timed(late="30 minutes")) as d:
        d.push("rows", [row("a", "12:00:00")])
        d.advance("rows", at("13:29:59.999"))
        assert [counts(d, table) for table in TABLES] == [{"a": 1}] * 2
        d.advance("rows", at("13:30:00"))
        assert [counts(d, table) for table in TABLES] == [{}] * 2


def test_a_row_without_time_counts_from_the_watermark() -> None:
    with drive(timed()) as d:
        d.push("rows", [row("a", "12:00:00"), row("b", None)])
        assert [counts(d, table) for table in TABLES] == [{"a": 1, "b": 1}] * 2
        d.push("rows", [row("c", None), row("a", None)])
        d.advance("rows", at("12:59:59.999"))
        assert [counts(d, table) for table in TABLES] == [{"a": 2, "b": 1, "c": 1}] * 2
        d.advance("rows", at("14:00:00"))
        assert [counts(d, table) for table in TABLES] == [{}] * 2


def test_a_row_in_the_batch_that_ends_its_key_begins_it_anew(tmp_path: Path) -> None:
    """With input waiting Spark runs no batch for timers alone, so the row meets the state that is over."""
    batches = [[row("a", "12:00:00"), row("b", "12:00:00")], [row("x", "20:00:00")], [row("a", "20:00:01")]]
    for number, rows in enumerate(batches):
        file = tmp_path / "in" / f"{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(json.dumps(r) + "\n" for r in rows))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    app = kf.App("waiting")
    source = kf.files(tmp_path / "in", maxFilesPerTrigger=1)
    stream = app.stream("rows", source, schema=SCHEMA, time="at")
    stream.by("k").table("sums", n="count(*)", ttl="1 hour")
    stream.by("k").table("folds", n=kf.fold(zero={"n": "0L"}, update={"n": "state.n + 1"}), ttl="1 hour")
    with start.start(app.spec(), spark=shared_session(), home=tmp_path / "home") as handle:
        handle.drain()
        for table in TABLES:
            found = handle.table(table).rows()
            assert [(r["k"], r["n"]) for r in found] == [("a", 1), ("x", 1)]


def test_streams_in_a_union_are_as_far_as_the_slowest() -> None:
    app = kf.App("both")
    left = app.stream("left", kf.rows([]), schema=SCHEMA, time="at")
    right = app.stream(
        "right", kf.rows([]), schema="seen timestamp, k string", time="seen", late="10 minutes"
    )
    both = left.select("k").union(right.select("k"))
    both.by("k").table("sums", n="count(*)", ttl="1 hour")
    with drive(app) as d:
        d.push("left", [row("a", "12:00:00")])
        d.push("right", [{"k": "a", "seen": at("12:30:00")}, {"k": "b", "seen": at("12:00:00")}])
        assert counts(d, "sums") == {"a": 2, "b": 1}
        d.advance("left", at("20:00:00"))
        assert counts(d, "sums") == {"a": 2, "b": 1}
        d.advance("right", at("13:10:00"))
        assert counts(d, "sums") == {"a": 2}
        d.advance("right", at("13:39:59"))
        assert counts(d, "sums") == {"a": 2}
        d.advance("right", at("13:40:00"))
        assert counts(d, "sums") == {}


def test_event_time_goes_through_a_transform_that_keeps_the_column() -> None:
    app = kf.App("through")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA, time="at")
    rows.transform(lambda df: df.where("x > 0")).by("k").table("sums", n="count(*)", ttl="1 hour")
    with drive(app) as d:
        d.push("rows", [row("a", "12:00:00"), row("b", "12:30:00"), row("c", "12:00:00", x=0)])
        d.advance("rows", at("13:00:00"))
        assert counts(d, "sums") == {"b": 1}


def test_without_event_time_arrival_counts_and_the_next_batch_ends_it() -> None:
    """The clock of a batch is its own timestamp, so that a replay gives the same answer."""
    app = kf.App("arrival")
    rows = app.stream("rows", kf.rows([]), schema="k string")
    other = app.stream("other", kf.rows([]), schema="k string")
    rows.by("k").table("short", n="count(*)", ttl="500 ms")
    rows.by("k").table("long", n="count(*)", ttl=timedelta(hours=1))
    rows.transform(lambda df: df).by("k").table("transformed", n="count(*)", ttl="500 ms")
    rows.union(other).by("k").table("united", n="count(*)", ttl="500 ms")
    short = ("short", "transformed", "united")
    with drive(app) as d:
        begun = datetime.now(UTC)
        d.push("rows", [{"k": "a"}])
        pushed = 0
        deadline = time.monotonic() + 60
        while any("a" in counts(d, table) for table in short) and time.monotonic() < deadline:
            pushed += 1
            d.push("rows", [{"k": f"b{pushed}"}])
        assert [counts(d, table).get("a") for table in short] == [None] * 3
        assert datetime.now(UTC) - begun >= timedelta(milliseconds=500)
        assert counts(d, "long") == {"a": 1, **{f"b{n}": 1 for n in range(1, pushed + 1)}}

        before = d.rows("short")
        d.crash()
        assert d.rows("short") == before
        assert ops(d, "short")["a"] == ["upsert", "delete"]
        d.push("rows", [{"k": "a"}, {"k": "a"}])
        assert counts(d, "short")["a"] == 2, "it begins again"


def test_a_key_seen_in_the_first_moments_of_1970_lives_until_a_watermark_says_otherwise():
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id string, at timestamp", time="at")
    orders.by("id").table("counts", n="count(*)", ttl="1 hour")
    with drive(app) as d:
        d.push("orders", [{"id": "a", "at": "1970-01-01T00:00:00.000001Z"}])
        d.push("orders", [{"id": "a", "at": "1970-01-01T00:30:00Z"}])
        assert d.rows("counts") == [{"id": "a", "n": 2}]
        d.push("orders", [{"id": "b", "at": "1980-01-01T00:00:00Z"}])
        assert d.rows("counts") == [{"id": "b", "n": 1}]


def test_a_clock_that_is_ahead_forgets_no_key():
    """A time more than the stream's `future` ahead of the clock is rejected and moves no watermark."""
    app = kf.App("shop")
    orders = app.stream("orders", kf.rows([]), schema="id string, at timestamp", time="at")
    orders.by("id").table("counts", n="count(*)", ttl="1 hour")
    with drive(app) as d:
        d.push(
            "orders", [{"id": "a", "at": "2026-01-01T00:00:00Z"}, {"id": "b", "at": "2999-01-01T00:00:00Z"}]
        )
        d.push("orders", [{"id": "a", "at": "2026-01-01T00:00:01Z"}])
        assert d.rows("counts") == [{"id": "a", "n": 2}]
        (row,) = d.rejected("orders")
        assert row["reason"] == "event time 2999-01-01T00:00:00Z is too far in the future"
