"""The kernel's state as Spark's `statestore` source reads it: by column, named after the table's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import HomeUnusable
from keyfold.testing import Driver, drive
from tests.log_files import empty_logs

pytestmark = pytest.mark.jvm


def state(d: Driver, table: str) -> list[dict[str, Any]]:
    """Key and value of each key of a table, as Spark reads them from the checkpoint."""
    source = d.handle.spark.read.format("statestore").option("stateVarName", "state")
    found = source.load(str(d.handle.home.table(table).checkpoint)).select("key.*", "value.*").collect()
    return sorted((row.asDict(recursive=True) for row in found), key=str)


def test_state_is_read_by_column_while_the_app_runs_and_after() -> None:
    app = kf.App("states")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, at timestamp", time="at")
    rows.by("k", even="x % 2 = 0").table(
        "sums",
        n="count(*)",
        mean="avg(x)",
        most="max(x)",
        least="min(x)",
        spread="max(x) - min(x)",
        ttl="1 day",
    )
    rows.by("k").table(
        "folds",
        n="count(x)",
        total=kf.fold(
            zero={"sum": "0L", "last": "''"}, update={"sum": "state.sum + x", "last": "k"}, result="state.sum"
        ),
        seen="collect_set(x)",
    )
    with drive(app) as d:
        d.push(
            "rows", [{"k": "a", "x": 1, "at": "2026-01-01T00:00:00Z"}, {"k": "a", "x": 3}, {"k": "b", "x": 2}]
        )
        d.push("rows", [{"k": "b", "x": 4, "at": "2026-01-01T00:00:01Z"}, {"k": None}])
        sums = state(d, "sums")
        assert [(r["k"], r["even"]) for r in sums] == [("a", False), ("b", True)]
        # Each field is called after its column and what Spark calls the part of the aggregate's buffer.
        a = sums[0]
        assert (a["n_count"], a["mean_sum"], a["mean_count"], a["most_max"], a["least_min"]) == (
            2,
            4.0,
            2,
            3,
            1,
        )
        assert not any(name.startswith("spread") for name in a), "what columns have in common is kept once"
        assert a["_seen"] is not None

        folds = state(d, "folds")
        assert [(r["k"], r["n_count"], r["total_sum"], r["total_last"]) for r in folds] == [
            ("a", 2, 4, "a"),
            ("b", 2, 6, "b"),
        ]
        assert isinstance(folds[0]["seen_buf"], bytes | bytearray)

        plan = json.loads(d.handle.home.plan.read_text())
        assert [f["name"] for f in plan["tables"]["folds"]["state"]["fields"]] == [
            name for name in folds[0] if name != "k"
        ]
        d.handle.stop()
        assert state(d, "folds") == folds
        d.restart()
        assert state(d, "sums") == sums


def test_no_two_fields_of_the_state_have_one_name() -> None:
    app = kf.App("names")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, y int")
    one = {"zero": {"b_c": "0", "B": "0"}, "update": {"b_c": "x", "B": "x"}, "result": "state.b_c"}
    rows.by("k").table(
        "crowded",
        {
            "a": kf.fold(**one),  # type: ignore[arg-type]
            "a_b": kf.fold(zero={"c": "0"}, update={"c": "y"}),
            "mean": "avg(x)",
            "mean_sum": kf.fold(zero={"v": "0"}, update={"v": "x"}),
            "k_mean": "avg(y)",
            "value": "count(*)",
            "key": "max(x)",
            "state": "min(y)",
            "partition_id": "sum(x) filter (where y > 0)",
        },
    )
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1, "y": 2}])
        d.push("rows", [{"k": "a", "x": 3, "y": 4}])
        assert d.rows("crowded") == [
            {"k": "a", "a": 3, "a_b": 4, "mean": 2.0, "mean_sum": 3, "k_mean": 3.0}
            | {"value": 2, "key": 3, "state": 2, "partition_id": 4}
        ]
        fields = json.loads(d.handle.home.plan.read_text())["tables"]["crowded"]["state"]["fields"]
        names = [f["name"].lower() for f in fields]
        assert len(set(names)) == len(names)
        (row,) = state(d, "crowded")
        assert len(row) == 1 + len(names)


def test_state_goes_with_its_key() -> None:
    app = kf.App("gone")
    rows = app.stream("rows", kf.rows([]), schema="k string, at timestamp", time="at")
    rows.by("k").table("short", n="count(*)", ttl="1 hour")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "at": "2026-01-01T00:00:00Z"}])
        d.push("rows", [{"k": "b", "at": "2026-01-01T01:00:00Z"}])
        assert [r["k"] for r in state(d, "short")] == ["b"]
        timers = d.handle.spark.read.format("statestore").option("readRegisteredTimers", "true")
        left = timers.load(str(d.handle.home.table("short").checkpoint)).select("key.k").collect()
        assert [r.k for r in left] == ["b"], "one timer a key"


def test_a_view_that_was_lost_or_off_is_made_again_from_the_state(tmp_path: Path) -> None:
    app = kf.App("views")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int, f double, at timestamp", time="at")
    aggregates = {
        "n": "count(*)",
        "mean": "avg(x)",
        "different": "count(distinct x)",
        "near": "percentile_approx(x, 0.5)",
        "about": "approx_count_distinct(x)",
        "newest": "max_by(struct(x, k), at)",
        "rate": "sum(x) / count(*)",
        "zeros": "count(*) filter (where f = 0)",
    }
    rows.by("k", f="f").table("sums", aggregates, ttl="1 day")
    chain = kf.fold(zero={"xs": "cast(array() as array<int>)"}, update={"xs": "concat(state.xs, array(x))"})
    rows.by(name="upper(k)").table("folds", {"chain": chain, **aggregates})

    def pushed(number: int) -> list[dict[str, Any]]:
        return [
            {"k": k, "x": number + n, "f": (-0.0, 0.0, 1.5)[n], "at": f"2026-01-01T00:0{number}:00Z"}
            for k in "ab"
            for n in range(3)
        ]

    def read(d: Driver) -> dict[str, list[dict[str, Any]]]:
        return {table: d.rows(table) for table in ("sums", "folds")}

    with drive(app, home=tmp_path) as d:
        d.push("rows", pushed(1))
        d.push("rows", [*pushed(2), {"k": None}])
        before = read(d)
    for file in (tmp_path / "views").glob("views.db*"):
        file.unlink()
    empty_logs(tmp_path / "views")
    with drive(app, home=tmp_path) as d:
        assert read(d) == before
        d.push("rows", pushed(3))
        third = read(d)
    with drive(app, home=tmp_path, views="none") as d:
        d.push("rows", pushed(4))
    empty_logs(tmp_path / "views")
    with drive(app, home=tmp_path) as d:
        fourth = read(d)
        assert [r["n"] for r in fourth["folds"]] == [r["n"] + 3 for r in third["folds"]]
        assert fourth["folds"][0]["chain"] == [1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6]
        d.crash()
        assert read(d) == fourth

    # A view without its state is nobody's.
    shutil.rmtree(tmp_path / "views" / "tables" / "sums" / "checkpoint")
    with pytest.raises(HomeUnusable, match="batch"), drive(app, home=tmp_path):
        pass
