"""An app while it runs: several at once, sessions of the user's, snapshots, stopping, a table that fails."""

from __future__ import annotations

import math
import threading
import zipfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.polling import wait_until
from keyfold.engine.sources.json_rows import encode, put
from keyfold.engine.status.query_metrics import reported_batch
from keyfold.errors import QueryError, QueryFailed
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import drive, shared_session

pytestmark = pytest.mark.jvm


def counting(name: str, **options: Any) -> kf.App:
    app = kf.App(name, **options)
    app.stream("rows", kf.rows([{"k": "not fed"}]), schema="k string, x int").by("k").table("t", n="count(*)")
    return app


def test_apps_in_one_home_and_one_session_do_not_see_each_other(tmp_path: Path) -> None:
    with drive(counting("one"), home=tmp_path) as one, drive(counting("two"), home=tmp_path) as two:
        assert repr(one.handle) == f"<app one, running: t; {tmp_path / 'one'}>"
        one.push("rows", [{"k": "a"}])
        two.push("rows", [{"k": "b"}, {"k": "b"}])
        one.crash()
        assert one.rows("t") == [{"k": "a", "n": 1}]
        assert two.rows("t") == [{"k": "b", "n": 2}]


def test_a_batch_under_way_finishes_when_the_app_stops(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(point: FaultPoint, _: dict[str, Any]) -> None:
        if point == FaultPoint.BATCH_BEGUN:
            begun.set()
            assert go_on.wait(60)

    app = counting("stopping")
    with handled_by(wait), drive(app, home=tmp_path) as d:
        put(tmp_path / "stopping" / "feeds" / "rows", "one", encode([{"k": "a"}]))
        assert begun.wait(60)
        stopper = threading.Thread(target=d.handle.stop)
        stopper.start()
        assert wait_until(d.handle.hooks["t"].stopping.is_set, 60)
        # This one comes too late to be begun.
        put(tmp_path / "stopping" / "feeds" / "rows", "two", encode([{"k": "a"}]))
        go_on.set()
        stopper.join(60)
        assert not stopper.is_alive()
        assert (d.handle.home.table("t").checkpoint / "commits" / "0").exists()
        assert d.handle.status()["tables"]["t"]["rows"] == 1, "the last batch is counted too"
        d.restart()
        assert d.rows("t") == [{"k": "a", "n": 2}]
        assert [c["n"] for c in d.changes("t")] == [1, 2]


def test_a_query_that_waits_for_rows_has_reported_no_batch() -> None:
    with drive(counting("waiting")) as d:
        query = d.handle.queries["t"]
        assert wait_until(lambda: query._jsq.lastProgress() is not None, 60)
        assert reported_batch(query) == -1
        d.push("rows", [{"k": "a"}])
        assert wait_until(lambda: reported_batch(query) == 0, 60)


def test_a_table_that_fails_leaves_the_others_alone() -> None:
    app = kf.App("uneven")
    rows = app.stream("rows", kf.rows([]), schema="k string, x string")
    rows.by("k").table("strict", total="sum(cast(x as int))", on_error="fail")
    rows.by("k").table("patient", total="sum(cast(x as int))")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": "1"}])
        with pytest.raises(QueryFailed, match="strict"):
            d.push("rows", [{"k": "a", "x": "oops"}, {"k": "a", "x": "2"}])
        assert wait_until(lambda: d.rows("patient") == [{"k": "a", "total": 3}], 60)
        assert d.rows("strict") == [{"k": "a", "total": 1}]
        status = d.handle.status()["tables"]
        assert [status[t]["running"] for t in ("strict", "patient")] == [False, True]
        with pytest.raises(QueryFailed, match="strict"):
            d.handle.wait(60)
        handle = d.handle
        assert repr(handle) == f"<app {app.name}, failed: strict (failed), patient; {handle.home.path}>"
    assert repr(handle) == f"<app {app.name}, stopped: strict, patient; {handle.home.path}>"


def test_snapshots_and_batches_come_as_often_as_asked() -> None:
    with drive(counting("often", every="200 ms", snapshot_every=1)) as d:
        for n in range(1, 5):
            d.push("rows", [{"k": "a"}])
            assert d.rows("t") == [{"k": "a", "n": n}]
        state = d.handle.home.table("t").checkpoint / "state"
        # Snapshots are made beside the batches.
        assert wait_until(lambda: list(state.rglob("*.zip")), 60, 0.1)
        # Spark starts a batch when a multiple of the interval has come: no two in one.
        starts = [p["timestamp"] for p in d.handle.queries["t"].recentProgress if p["numInputRows"]]
        slots = [int(datetime.fromisoformat(start).timestamp() * 5) for start in starts]
        assert len(set(slots)) == len(slots)
        d.restart()
        d.push("rows", [{"k": "a"}])
        d.crash()
        assert d.rows("t") == [{"k": "a", "n": 5}]


def test_a_session_of_the_users_own_keeps_its_settings_and_lends_them() -> None:
    app = kf.App("abroad")
    rows = app.stream("rows", kf.rows([]), schema="k string, x string, at timestamp", time="at")
    rows.by(day="date(at)").table("days", last="max(at)", n="count(try_cast(x as int))")
    rows.by("k").table("casts", total="sum(cast(x as int))")
    mine = shared_session().newSession()
    mine.conf.set("spark.sql.session.timeZone", "America/New_York")
    mine.conf.set("spark.sql.ansi.enabled", "false")
    mine.conf.set("spark.sql.shuffle.partitions", "3")
    before = {
        key: mine.conf.get(key) for key in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
    }
    with drive(app, spark=mine) as d:
        # Two hours after midnight in UTC it is the day before in New York.
        d.push("rows", [{"k": "a", "x": "1", "at": "2026-01-02T02:00:00Z"}, {"k": "a", "x": "oops"}])
        moment = datetime(2026, 1, 2, 2, tzinfo=UTC)
        assert d.rows("days") == [{"day": date(2026, 1, 1), "last": moment, "n": 1}]
        assert [r["reason"] for r in d.rejected("days")] == ["key day is null"]
        assert d.rows("casts") == [{"k": "a", "total": 1}], "without ANSI a cast that fails is null"
        state = d.handle.home.table("days").checkpoint / "state" / "0"
        assert sum(p.name.isdigit() for p in state.iterdir()) == 3
    assert {key: mine.conf.get(key) for key in before} == before
    assert mine.sql("select 1").first()[0] == 1, "it was not stopped"


def test_a_view_is_read_as_rows_dataframe_and_at_a_position() -> None:
    app = kf.App("reading")
    schema = "k string, i int, f double, d decimal(20,2), b binary, at timestamp, m map<string,int>"
    rows = app.stream("rows", kf.rows([]), schema=schema)
    newest = {c: f"max_by({c}, i)" for c in ("f", "d", "b", "at", "m")}
    rows.by("k").table(
        "t",
        {
            "i": "max(i)",
            **newest,
            "st": "max(struct(i, k))",
            "span": "max(at) - min(at)",
            "set": "collect_set(i)",
        },
    )
    with drive(app) as d:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        given = {"i": 1, "f": math.inf, "d": Decimal("1.50"), "b": b"\x00\x01", "at": moment, "m": {"x": 1}}
        d.push("rows", [{"k": "a", **given}, {"k": "b"}])
        reader = d.handle.table("t")
        a, b = (row.asDict(recursive=True) for row in reader.df().orderBy("k").collect())
        assert (a["i"], a["f"], a["d"], bytes(a["b"]), a["m"]) == (
            1,
            math.inf,
            Decimal("1.50"),
            b"\x00\x01",
            {"x": 1},
        )
        assert (a["st"], a["span"], a["set"]) == ({"i": 1, "k": "a"}, timedelta(0), [1])
        assert b["f"] is b["m"] is b["span"] is None
        types = dict(reader.df().dtypes)
        assert types["d"] == "decimal(20,2)"
        assert types["st"] == "struct<i:int,k:string>"
        assert types["span"] == "interval day to second"
        assert reader.df(where="k = 'a'").count() == 1
        assert reader.pandas()["k"].tolist() == ["a", "b"]

        position = d.handle.status()["tables"]["t"]["batch"]
        assert reader.get("a", at_least=position)["i"] == 1
        with pytest.raises(QueryError, match="behind") as behind:
            reader.get("a", at_least=position + 1)
        assert behind.value.reason == "behind_bound"
        d.push("rows", [{"k": "a", "i": 2}])
        assert reader.get("a", at_least=position + 1, wait="10 seconds")["i"] == 2


def test_jars_among_the_settings_are_added_to_a_session_that_runs_already(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "mine.jar", "w") as jar:
        jar.writestr("mine.txt", "here")
    for _ in range(2):
        with drive(counting("jars"), spark={"spark.jars": f" {tmp_path / 'mine.jar'} ,"}) as d:
            d.push("rows", [{"k": "a"}])
            assert d.rows("t") == [{"k": "a", "n": 1}]
            loader = d.handle.spark._jsparkSession.artifactManager().classloader()
            assert loader.getResource("mine.txt") is not None
