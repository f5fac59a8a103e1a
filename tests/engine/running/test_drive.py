"""`keyfold.testing.drive`: what a test does to an app and what it sees, on the real engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.terminal import log_lines
from keyfold.engine.polling import wait_until
from keyfold.errors import BadOption, QueryError, QueryFailed
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def shop() -> kf.App:
    app = kf.App("shop")
    orders = app.stream(
        "orders",
        kf.files("nowhere/orders"),
        schema="id string, region string, amount double, at timestamp",
        time="at",
        late="10 minutes",
    )
    clicks = app.stream("clicks", kf.rate(), help="fed by hand like any other")
    paid = orders.where("amount > 0")
    paid.by("region").table("totals", orders="count(*)", revenue="sum(amount)", ttl="1 hour")
    paid.by("region", hour="hour(at)").table("hours", latest="max(at)", first_id="min(id)")
    clicks.by(even="value % 2 = 0").table("pages", n="count(*)")
    return app


@pytest.fixture
def batches() -> Iterator[list[tuple[str, int]]]:
    """Table and batch id of each batch that was begun."""
    seen: list[tuple[str, int]] = []

    def record(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.BATCH_BEGUN:
            seen.append((facts["table"], facts["batch"]))

    with handled_by(record):
        yield seen


def test_a_column_that_the_stream_does_not_have_is_refused_before_anything_is_fed() -> None:
    with drive(shop()) as d:
        with pytest.raises(
            QueryError, match=r"stream orders has no column 'regoin'(?s:.)*did you mean 'region'"
        ):
            d.push("orders", [{"id": "1", "region": "eu"}, {"id": "2", "regoin": "eu"}])
        with pytest.raises(QueryError, match=r"no column 'Region'(?s:.)*did you mean 'region'"):
            d.push("orders", [{"Region": "eu"}])
        assert d.rows("hours") == d.rejected("orders") == []


def test_what_is_pushed_is_seen_and_what_was_seen_survives_restart_and_crash() -> None:
    with drive(shop()) as d:
        assert d.rows("totals") == []
        assert d.changes("totals") == []
        assert d.rejected("orders") == []
        for rows in ({"id": "1"}, '{"id": "1"}', [5]):
            with pytest.raises(BadOption, match="push takes a list of rows"):
                d.push("orders", rows)  # type: ignore[arg-type, list-item]

        # Datetimes with a zone, without one, and ISO strings mean the same moments; missing columns are null.
        d.push(
            "orders",
            [
                {"id": "1", "region": "eu", "amount": 10.0, "at": NOON},
                {"id": "2", "region": "eu", "amount": 5, "at": "2026-01-01T12:30:00Z"},
                {"id": "3", "region": "us", "amount": 1, "at": datetime(2026, 1, 1, 13)},
                {"id": "4", "region": "us", "amount": 2, "at": "2026-01-01T14:00:00+01:00"},
                {"id": "5", "amount": 2, "at": NOON},
                {"region": "asia", "amount": 3, "at": NOON},
                {"region": "asia"},
                '{"id": "6", "region": "eu", "amou',
            ],
        )
        totals = [
            {"region": "asia", "orders": 1, "revenue": 3.0},
            {"region": "eu", "orders": 2, "revenue": 15.0},
            {"region": "us", "orders": 2, "revenue": 3.0},
        ]
        assert d.rows("totals") == totals
        assert [list(row) for row in d.rows("totals")] == [["region", "orders", "revenue"]] * 3
        assert d.rows("totals", where="orders = 2", order_by="revenue desc", limit=1) == totals[1:2]
        one = d.get("totals", "eu")
        assert one is not None
        assert one["orders"] == 2
        assert d.get("totals", "mars") is None
        assert d.rows("hours") == [
            {"region": "asia", "hour": 12, "latest": NOON, "first_id": None},
            {"region": "eu", "hour": 12, "latest": NOON + timedelta(minutes=30), "first_id": "1"},
            {"region": "us", "hour": 13, "latest": NOON + timedelta(hours=1), "first_id": "3"},
        ]
        assert d.rows("pages") == []
        _check_rejected(d)

        assert _by_region(d.changes("totals")) == [{"_op": "upsert", **row} for row in totals]
        assert d.changes("totals") == []

        # Only what depends on a stream moves with it.
        d.push("clicks", [{"value": 1}, {"value": 2}, {"value": 3}])
        assert d.rows("pages") == [{"even": False, "n": 2}, {"even": True, "n": 1}]
        assert d.changes("totals") == []

        d.push("orders", [{"id": "7", "region": "us", "amount": 7.5, "at": NOON}])
        d.restart()
        assert d.changes("totals") == [{"_op": "upsert", "region": "us", "orders": 3, "revenue": 10.5}]
        assert d.changes("totals") == []
        d.crash()
        assert d.changes("totals") == []
        assert len(d.changes("hours")) == 4
        d.push("orders", [{"id": "8", "region": "us", "amount": 1, "at": NOON}])
        d.crash()
        assert d.changes("totals") == [{"_op": "upsert", "region": "us", "orders": 4, "revenue": 11.5}]
        assert d.rows("pages") == [{"even": False, "n": 2}, {"even": True, "n": 1}]
        _check_rejected(d)


def _by_region(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(changes, key=lambda row: str(row["region"]))


def _check_rejected(d: Driver) -> None:
    """The line that does not parse is rejected by the stream, the row without a key by both tables."""
    broken = ["does not parse", '{"id": "6", "region": "eu", "amou']
    for name in ("orders", "totals", "hours"):
        found = sorted([row["reason"], row["raw"]] for row in d.rejected(name))
        assert found[:-1] == ([broken] if name == "orders" else [])
        assert found[-1][0] == "key region is null"
        assert '"id":"5"' in found[-1][1]
    assert all(set(row) >= {"reason", "raw", "batch", "at"} for row in d.rejected("orders"))
    assert d.rejected("clicks") == d.rejected("pages") == []


def test_advance_moves_event_time_and_fires_what_is_due() -> None:
    with drive(shop()) as d:
        d.push("orders", [{"id": "1", "region": "eu", "amount": 1.0, "at": NOON}])
        d.advance("orders", "2026-01-01T13:09:59Z")
        assert d.rows("totals") == [{"region": "eu", "orders": 1, "revenue": 1.0}]
        assert _watermark(d) == datetime(2026, 1, 1, 12, 59, 59, tzinfo=UTC)

        d.advance("orders", NOON + timedelta(hours=1, minutes=10))
        assert _watermark(d) == NOON + timedelta(hours=1)
        assert d.rows("totals") == []
        assert [row["_op"] for row in d.changes("totals")] == ["upsert", "delete"]
        # A table without a lifetime keeps its rows, and a row that only moves time is not a row of it.
        assert len(d.rows("hours")) == 1
        assert d.rejected("orders") == []

        d.advance("orders", NOON)
        assert _watermark(d) == NOON + timedelta(hours=1), "event time does not go back"


def _watermark(d: Driver) -> datetime | None:
    found: datetime | None = d.handle.status()["tables"]["totals"]["watermark"]
    return found


def test_wrong_names_and_uses_say_what_is_meant() -> None:
    d = drive(shop())
    with pytest.raises(QueryError, match="with statement"):
        d.rows("totals")
    with d:
        with pytest.raises(QueryError, match="did you mean 'orders'") as unknown:
            d.push("order", [])
        assert unknown.value.reason == "not_found"
        for read in (d.rows, d.changes, d.get):
            with pytest.raises(QueryError, match="did you mean 'totals'"):
                read("total")
        with pytest.raises(QueryError, match="did you mean 'clicks'"):
            d.rejected("click")
        with pytest.raises(QueryError, match="did you mean 'clicks'"):
            d.advance("click", NOON)
        with pytest.raises(QueryError, match="clicks has no event time"):
            d.advance("clicks", NOON)
        with pytest.raises(TypeError, match="can't hold a object"):
            d.push("orders", [{"id": object()}])
        # None of these broke anything.
        d.push("orders", [])
        d.push("orders", [{"id": "1", "region": "eu", "amount": 1.0, "at": NOON}])
        assert d.rows("totals") == [{"region": "eu", "orders": 1, "revenue": 1.0}]


def test_crash_runs_the_last_batch_again_and_restart_does_not(batches: list[tuple[str, int]]) -> None:
    app = kf.App("again")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    rows.by("k").table("sums", n="count(*)", total="sum(x)")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": None}, "[1"])
        d.push("rows", [{"k": "a", "x": 2}])
        assert batches == [("sums", 0), ("sums", 1)]
        d.restart()
        assert batches == [("sums", 0), ("sums", 1)]

        log = d.handle.home.table("sums").log
        before, applied = {path: path.stat().st_mtime_ns for path in log.rglob("*")}, d.get("sums", "a")
        d.crash()
        assert batches == [("sums", 0), ("sums", 1), ("sums", 1)]
        after = {path: path.stat().st_mtime_ns for path in log.rglob("*")}
        assert after == before, "what was published stays as it was, and nothing is added"
        assert d.get("sums", "a") == applied, "the view had the batch, so it was left alone, its _at included"
        assert d.rows("sums") == [{"k": "a", "n": 2, "total": 3}]

        d.crash()
        d.crash()
        assert batches[3:] == [("sums", 1)] * 2
        d.push("rows", [{"k": "a", "x": 4}, {"k": "b", "x": 8}])
        assert batches[5:] == [("sums", 2)]
        assert d.rows("sums") == [{"k": "a", "n": 3, "total": 7}, {"k": "b", "n": 1, "total": 8}]
        assert [c["total"] for c in d.changes("sums") if c["k"] == "a"] == [1, 3, 7]
        assert len(d.rejected("sums")) == 2


def test_a_batch_executes_its_plan_once_however_many_outputs_it_has(tmp_path: Path) -> None:
    app = kf.App("once")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    out = tmp_path / "out"
    rows.by("k").table("sums", total="sum(x)").to(kf.files(out, format="json"))
    rows.by("k").table("folds", last=kf.fold(zero={"x": "0"}, update={"x": "x"}))
    with drive(app) as d:
        for n in range(3):
            d.push("rows", [{"k": "a", "x": n}, {"k": "b", "x": 1}, {"k": None}, "?"])
        for query in d.handle.queries.values():
            # Spark counts rows where they are read and keys where they are stored. A second execution of the
            # plan would find the shuffle's files and read nothing, but store every key again.
            progress = [p for p in query.recentProgress if p["numInputRows"]]
            read = [p["numInputRows"] for p in progress]
            assert [p["stateOperators"][0]["numRowsUpdated"] for p in progress] == [2, 2, 2]
            assert read == [4, 4, 4]
        sent = [row.total for row in d.handle.spark.read.json(str(out)).where("k = 'a'").collect()]
        assert sorted(sent) == [0, 1, 3]
        assert len(d.changes("sums")) == 6
        assert len(d.rejected("sums")) == 6

        # The sink follows the log: a batch that runs again publishes nothing, so it is not sent again.
        d.crash()
        sent = [row.total for row in d.handle.spark.read.json(str(out)).where("k = 'a'").collect()]
        assert sorted(sent) == [0, 1, 3]


def test_a_sink_that_stops_before_its_position_is_recorded_gets_the_batch_again(tmp_path: Path) -> None:
    app = kf.App("again")
    rows = app.stream("rows", kf.rows([]), schema="k string")
    rows.by("k").table("counts", n="count(*)").to(kf.files(tmp_path / "out", format="json"))

    def stop(point: FaultPoint, _: dict[str, Any]) -> None:
        if point == FaultPoint.SINK_WRITTEN:
            raise OSError(5, "the network is gone")

    with drive(app) as d:
        d.push("rows", [{"k": "a"}])
        with handled_by(stop), pytest.raises(QueryFailed, match="the network is gone") as stopped:
            d.push("rows", [{"k": "a"}])
        assert (stopped.value.table, stopped.value.batch) == ("counts", 1)
        d.restart()
        sent = d.handle.spark.read.json(str(tmp_path / "out")).collect()
        assert sorted((row["_batch"], row.n) for row in sent) == [(0, 1), (1, 2), (1, 2)]
        assert d.rows("counts") == [{"k": "a", "n": 2}]


def test_a_home_of_ones_own_stays_and_a_temporary_one_goes(tmp_path: Path) -> None:
    app = kf.App("kept")
    app.stream("rows", kf.rows([]), schema="k string").by("k").table("counts", n="count(*)")
    with drive(app) as d:
        temporary = d.handle.home.path
        assert temporary.is_dir()
    assert not temporary.exists()

    with drive(app, home=tmp_path) as d:
        d.push("rows", [{"k": "a"}])
    with drive(app, home=tmp_path) as d:
        assert d.rows("counts") == [{"k": "a", "n": 1}]
        d.push("rows", [{"k": "a"}])
        assert d.rows("counts") == [{"k": "a", "n": 2}]
        assert [row["n"] for row in d.changes("counts")] == [1, 2]


def test_without_views_changes_and_rejected_rows_are_there_and_rows_are_not() -> None:
    app = kf.App("blind")
    app.stream("rows", kf.rows([]), schema="k string, x int").by("k").table("sums", total="sum(x)")
    with drive(app, views="none") as d:
        d.push("rows", [{"k": "a", "x": 1}, {"x": 2}])
        d.crash()
        d.push("rows", [{"k": "a", "x": 3}])
        assert [r["reason"] for r in d.rejected("rows")] == ["key k is null"]
        with pytest.raises(QueryError, match="views are turned off") as refused:
            d.rows("sums")
        assert refused.value.reason == "not_ready"
        assert not d.handle.home.views.exists()
        assert [c["total"] for c in d.changes("sums")] == [1, 4]


def test_log_lines_after_a_restart_begin_with_the_first_batch_of_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_lines, "_LINE_SECONDS", 0.0)
    told: list[str] = []

    def tell() -> list[str]:
        lines.tell()
        told.extend(capsys.readouterr().err.splitlines())
        return told

    with drive(shop()) as d:
        for _ in range(2):
            lines = log_lines.Lines(d.handle)
            capsys.readouterr()
            assert tell() == [], "what was there before this run is not new"
            d.push("orders", [{"id": "1", "region": "eu", "amount": 10.0, "at": NOON}])
            # Spark reports how long a batch took a moment after its commit.
            assert wait_until(lambda: len(tell()) >= 3, 10), told
            begin = r"keyfold: (hours|totals): batch \d+ in \d.* rows/s, 1 keys, state \d"
            assert all(re.match(f"keyfold: stream orders: batch|{begin}", line) for line in told), told
            told.clear()
            d.restart()
