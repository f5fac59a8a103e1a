"""Tables that read other tables: each change reaches each reader once, whatever is stopped when."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.batch import side_outputs
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadExpression, QueryFailed, StateMismatch
from keyfold.fault_points import FaultPoint, Handler, handled_by
from keyfold.testing import Driver, drive, shared_session

pytestmark = pytest.mark.jvm

Row = dict[str, Any]


def chained(name: str = "chained", *readers: str) -> kf.App:
    """Sums per key, and tables that count what becomes of them."""
    app = kf.App(name)
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    sums = rows.by("k").table("sums", n="count(*)", total="sum(x)")
    for reader in readers:
        sums.changes(previous=True).by("k").table(reader, changes="count(*)", totals="sum(total)")
    return app


def seen(*totals: tuple[str, list[int]]) -> list[Row]:
    """What a reader must have of each key: how many changes, and the sum of what each of them said."""
    return [{"k": k, "changes": len(each), "totals": sum(each)} for k, each in totals]


def test_each_change_reaches_each_reader_once_through_crashes_and_restarts() -> None:
    app = chained("often", "one", "two")
    # A third table in a row.
    kf.Table(app, "one").changes(previous=True).by("k").table("three", n="count(*)", most="max(totals)")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "b", "x": 5}])
        for step in (d.crash, d.crash, d.restart):
            step()
            assert d.rows("one") == d.rows("two") == seen(("a", [1]), ("b", [5]))
        d.push("rows", [{"k": "a", "x": 2}])
        d.push("rows", [{"k": "a", "x": 3}, {"k": "c", "x": 0}])
        expected = seen(("a", [1, 3, 6]), ("b", [5]), ("c", [0]))
        for step in (d.crash, d.restart, d.crash):
            assert d.rows("one") == d.rows("two") == expected
            assert [(r["k"], r["n"], r["most"]) for r in d.rows("three")] == [
                ("a", 3, 10),
                ("b", 1, 5),
                ("c", 1, 0),
            ]
            step()
        assert d.handle.status()["tables"]["three"]["files_left"] == 0


def test_a_batch_without_changes_is_nothing_to_a_reader() -> None:
    with drive(chained("empty", "log")) as d:
        d.push("rows", ["no json"])
        assert len(d.rejected("rows")) == 1
        assert d.handle.home.table("sums").begun() == 0
        assert d.handle.home.table("log").begun() is None
        assert d.rejected("log") == d.late("log") == []


def bounded(n: int) -> kf.App:
    app = kf.App("bounded")
    rows = app.stream("rows", kf.rows([{"k": "a", "x": i} for i in range(n)]), schema="k string, x int")
    sums = rows.by("k").table("sums", total="sum(x)")
    sums.changes(previous=True).by("k").table("log", changes="count(*)", totals="sum(total)")
    return app


def test_changes_are_removed_once_they_are_read_unless_a_changelog_is_kept(tmp_path: Path) -> None:
    files: list[list[str]] = []
    for n in (1, 2, 3):
        with start.start(bounded(n).spec(), spark=shared_session(), home=tmp_path) as handle:
            handle.drain()
            assert not list(handle.home.table("sums").changes.glob("*"))
            found = handle.home.path.glob("tables/log/from/0-sums/*")
            files.append([file.name for file in found])
            (row,) = handle.table("log").rows()
            assert (row["changes"], row["totals"]) == [(1, 0), (2, 1), (3, 4)][n - 1]
    assert files == [[f"{n:012d}.parquet"] for n in (0, 1, 2)], "the last batch's may be needed again"


# Where the batch dies, and at which arrival there.
POINTS: list[tuple[FaultPoint, int]] = [
    (FaultPoint.CHANGELOG_COMPUTED, 1),
    (FaultPoint.CHANGELOG_WRITTEN, 1),
    (FaultPoint.READER_GIVEN, 1),
    (FaultPoint.READER_DUE, 2),
    (FaultPoint.READERS_GIVEN, 1),
    (FaultPoint.VIEW_COMMITTED, 1),
    (FaultPoint.SINK_WRITTEN, 1),
]


class Died(Exception):
    pass


def deadly(point: FaultPoint, number: int) -> Handler:
    arrivals = 0

    def die(reached: FaultPoint, facts: dict[str, Any]) -> None:
        nonlocal arrivals
        if reached == point and facts.get("table", "sums") == "sums":
            arrivals += 1
            if arrivals >= number:
                raise Died

    return die


def test_a_batch_that_dies_anywhere_gives_its_changes_once(tmp_path: Path) -> None:
    app = chained("dying", "one", "two")
    kf.Table(app, "sums").to(kf.files(str(tmp_path / "sink"), format="parquet"))
    expected: list[tuple[str, list[int]]] = []
    with drive(app) as d:
        for point, number in sorted(POINTS):
            with handled_by(deadly(point, number)), pytest.raises(QueryFailed):
                d.push("rows", [{"k": point.value, "x": 1}])
            d.restart()
            expected.append((point.value, [1]))
            assert d.rows("one") == d.rows("two") == seen(*expected), f"nothing lost, nothing twice: {point}"


def test_a_batch_whose_changes_were_removed_runs_again_and_gives_them_once(tmp_path: Path) -> None:
    for n in (1, 2, 2, 3):
        with start.start(bounded(n).spec(), spark=shared_session(), home=tmp_path) as handle:
            handle.drain()
            (row,) = handle.table("log").rows()
            assert (row["changes"], row["totals"]) == [(1, 0), (2, 1), (3, 4)][n - 1]
            checkpoint = handle.home.table("sums").checkpoint
        SparkCheckpoint(checkpoint).uncommit_last()


@pytest.mark.parametrize("views", ["sqlite", "none"])
def test_a_reader_that_comes_later_begins_with_the_rows_that_are_there(views: str, tmp_path: Path) -> None:
    def log(d: Driver, table: str) -> dict[str, tuple[int, int]]:
        """The newest of its changes, since there may be no view."""
        return {c["k"]: (c["changes"], c["totals"]) for c in aside_changes(d, table)}

    with drive(chained("later"), home=tmp_path, views=views) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "b", "x": 5}])
        d.push("rows", [{"k": "a", "x": 2}])
    with drive(chained("later", "log"), home=tmp_path, views=views) as d:
        assert log(d, "log") == {"a": (1, 3), "b": (1, 5)}
        d.crash()
        d.push("rows", [{"k": "a", "x": 10}])
        d.restart()
        assert log(d, "log") == {"a": (2, 16), "b": (1, 5)}
    with drive(chained("later", "log", "more"), home=tmp_path, views=views) as d:
        assert log(d, "log") == {"a": (2, 16), "b": (1, 5)}
        assert log(d, "more") == {"a": (1, 13), "b": (1, 5)}


def aside_changes(d: Driver, table: str) -> list[Row]:
    hook = d.handle.hooks[table]
    return list(side_outputs.read_changes(hook.home, hook.schema))


def test_the_batch_of_a_snapshot_that_runs_again_is_not_given_twice(tmp_path: Path) -> None:
    """The view has the batch, Spark has not committed it, and a reader begins."""
    with drive(chained("twice"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        d.push("rows", [{"k": "a", "x": 2}])
        checkpoint = d.handle.home.table("sums").checkpoint
    SparkCheckpoint(checkpoint).uncommit_last()
    with drive(chained("twice", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [3]))
        d.push("rows", [{"k": "a", "x": 4}])
        assert d.rows("log") == seen(("a", [3, 7]))


def test_a_first_start_that_was_cut_short_begins_anew(tmp_path: Path) -> None:
    with drive(chained("short"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    with drive(chained("short", "log"), home=tmp_path) as d:
        home = d.handle.home.table("log")
        assert d.rows("log") == seen(("a", [1]))
    # As if Spark had seen the snapshot and died before it planned a batch; the table went on meanwhile.
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(home.checkpoint / name)
    assert list(home.checkpoint.glob("sources/0/*"))
    (home.path.parent.parent / "views.db").unlink()
    for extra in home.path.parent.parent.glob("views.db-*"):
        extra.unlink()
    with drive(chained("short"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 2}])
    with drive(chained("short", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [3]))
        d.push("rows", [{"k": "a", "x": 4}])
        assert d.rows("log") == seen(("a", [3, 7]))


def test_a_reader_that_was_left_out_and_missed_changes_is_refused(tmp_path: Path) -> None:
    with drive(chained("left", "log"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    with drive(chained("left"), home=tmp_path):
        pass
    with drive(chained("left", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [1])), "nothing happened in between"
    with drive(chained("left"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    for _ in range(2):
        with (
            pytest.raises(StateMismatch, match="has missed changes of sums"),
            drive(chained("left", "log"), home=tmp_path),
        ):
            pass
    with drive(chained("left", "other"), home=tmp_path) as d:
        assert d.rows("other") == seen(("a", [2]))


def test_a_reader_of_a_table_whose_state_is_gone_is_refused(tmp_path: Path) -> None:
    with drive(chained("gone", "log"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        home = d.handle.home
    shutil.rmtree(home.table("sums").path)
    for file in home.path.glob("views.db*"):
        file.unlink()
    with (
        pytest.raises(StateMismatch, match="has read changes of sums up to batch 0"),
        drive(chained("gone", "log"), home=tmp_path),
    ):
        pass


def test_a_table_that_fails_does_not_hold_up_those_that_read_it() -> None:
    app = kf.App("failing")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    sums = rows.by("k").table("sums", {"total": "sum(x)"}, on_error="fail")
    sums.changes(previous=True).by("k").table("log", changes="count(*)")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        with pytest.raises(QueryFailed, match="sums") as failed:
            d.push("rows", [{"k": None}])
        assert failed.value.table == "sums"
        assert d.handle.queries["log"].isActive
        assert d.rows("log") == [{"k": "a", "changes": 1}]


VALUES = {
    "i8": "cast(-128 as tinyint)",
    "i16": "cast(32767 as smallint)",
    "i32": "7",
    "i64": "-9223372036854775808",
    "f32": "cast('NaN' as float)",
    "f64": "-0.0d",
    "dec": "cast(1234567.89 as decimal(9,2))",
    "big": "cast('1234567890123456789012345678.0123456789' as decimal(38,10))",
    "tiny": "cast(0.000000000000000001 as decimal(18,18))",
    "yes": "true",
    "s": "'naïve \\u2028 \U0001f600'",
    "bin": "x'00ff10'",
    "day": "date'2026-02-28'",
    "early": "date'0001-01-01'",
    "ts": "timestamp'2026-01-01 12:00:00.123456Z'",
    "old": "timestamp'1001-01-01 00:00:00.000001Z'",
    "ntz": "timestamp_ntz'1969-12-31 23:59:59.999999'",
    "span": "interval '3 04:05:06.000007' day to second",
    "hours": "interval '-5' hour",
    "nothing": "null",
    "arr": "array('x', null, '')",
    "days": "array(date'2026-01-01', null)",
    "st": "named_struct('a', 1, 'b', array(cast(1.5 as decimal(5,2))), 'c', cast(null as int), 'v', null)",
    "m": "map('a', 1, 'ü', null)",
    "mm": "map(named_struct('x', 1), array(interval '1' day))",
    "none": "cast(null as struct<a: int>)",
}


# State can't hold intervals.
TEXTS = ("span", "hours", "mm")


def typed(*readers: str) -> kf.App:
    app = kf.App("typed")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    values = rows.by("k").table(
        "values", {"n": "count(*)"} | {c: f"if(count(*) > 0, {e}, null)" for c, e in VALUES.items()}
    )
    for reader in readers:
        shown = {c: f"max_by({c}, n)" for c in VALUES if c not in TEXTS}
        texts = {c: f"max_by(cast({c} as string), n)" for c in TEXTS}
        # Maps can't be compared.
        same = " and ".join(f"(previous.{c} <=> {c})" for c in VALUES if c not in ("m", "mm"))
        values.changes(previous=True).by("k").table(reader, shown | texts | {"same": f"max_by({same}, n)"})
    return app


def test_values_of_every_type_reach_readers_as_they_are_by_change_and_by_snapshot(tmp_path: Path) -> None:
    with drive(typed("copy"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        d.push("rows", [{"k": "a", "x": 1}])
        (value,), (copy,) = d.rows("values"), d.rows("copy")
        _same(value, copy)
        assert copy["same"] is True, "the row before came through as well"
    for views, reader in (("sqlite", "later"), ("none", "last")):
        with drive(typed("copy", reader), home=tmp_path, views=views) as d:
            (found,) = aside_changes(d, reader)
            _same(value, found)


def _same(value: Row, copy: Row) -> None:
    # NaN equals nothing, so that both are compared as text, in which types show as well.
    for column in (c for c in VALUES if c not in TEXTS):
        assert repr(copy[column]) == repr(value[column]), column
    assert {c: copy[c] for c in TEXTS} == {
        "span": "INTERVAL '3 04:05:06.000007' DAY TO SECOND",
        "hours": "INTERVAL '-05' HOUR",
        "mm": "{{1} -> [INTERVAL '1' DAY]}",
    }


def test_intervals_of_months_are_refused_as_what_another_table_reads() -> None:
    app = kf.App("months")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    table = rows.by("k").table("ages", age="make_ym_interval(max(x))")
    table.changes(previous=True).by("k").table("log", n="count(*)")
    with pytest.raises(BadExpression, match="age of ages is an interval of months") as error, drive(app):
        pass
    assert "cast(age as int)" in str(error.value)


def test_a_declaration_is_checked_without_a_home(tmp_path: Path) -> None:
    from keyfold.engine.compile.table import compile_app

    spark = shared_session()
    before = set(Path.cwd().iterdir())
    compiled = compile_app(spark, chained("checked", "log").spec(), {"rows": tmp_path})
    assert [c.spec.name for c in compiled] == ["sums", "log"]
    assert set(Path.cwd().iterdir()) == before
