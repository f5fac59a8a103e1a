"""Tables that read other tables: each change reaches each reader once, whatever is stopped when."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.log import changes, readers, retention
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadExpression, HomeUnusable, QueryFailed, StateMismatch
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
        assert d.handle.home.table("sums").planned_batch() == 0
        assert d.handle.home.table("log").planned_batch() is None
        assert d.rejected("log") == d.late("log") == []


def bounded(n: int, *readers: str) -> kf.App:
    """The same on rows of the declaration, for an app that is started as users start it."""
    app = kf.App("bounded")
    rows = app.stream("rows", kf.rows([{"k": "a", "x": i} for i in range(n)]), schema="k string, x int")
    sums = rows.by("k").table("sums", total="sum(x)")
    for reader in readers:
        sums.changes(previous=True).by("k").table(reader, changes="count(*)", totals="sum(total)")
    return app


def test_how_far_a_reader_is_and_what_is_left_is_known_without_spark(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        app = bounded(n, "log").spec()
        with start.start(app, spark=shared_session(), home=tmp_path) as handle:
            handle.drain()
            (row,) = handle.table("log").rows()
            assert (row["changes"], row["totals"]) == [(1, 0), (2, 1), (3, 4)][n - 1]
            (use,) = readers.readers(app, "sums")
            assert readers.read_upto(handle.home, use) == n - 1
            assert handle.status()["tables"]["log"]["files_left"] == 0


# Where a batch of a table or of its reader dies.
POINTS = [
    (point, table)
    for point in (
        FaultPoint.BATCH_BEGUN,
        FaultPoint.PARTS_WRITTEN,
        FaultPoint.BATCH_PUBLISHED,
        FaultPoint.BATCH_DONE,
    )
    for table in ("sums", "one")
]


class Died(Exception):
    pass


def deadly(point: FaultPoint, table: str) -> Handler:
    def die(reached: FaultPoint, facts: dict[str, Any]) -> None:
        if (reached, facts.get("table")) == (point, table):
            raise Died

    return die


def test_a_batch_that_dies_anywhere_gives_its_changes_once() -> None:
    expected: list[tuple[str, list[int]]] = []
    with drive(chained("dying", "one", "two")) as d:
        for point, table in POINTS:
            key = f"{point.value} {table}"
            with handled_by(deadly(point, table)), pytest.raises(QueryFailed):
                d.push("rows", [{"k": key, "x": 1}])
            d.restart()
            expected.append((key, [1]))
            assert d.rows("one") == d.rows("two") == seen(*sorted(expected)), f"nothing lost or twice: {key}"


def test_a_batch_that_runs_again_gives_its_changes_once(tmp_path: Path) -> None:
    for n in (1, 2, 2, 3):
        with start.start(bounded(n, "log").spec(), spark=shared_session(), home=tmp_path) as handle:
            handle.drain()
            (row,) = handle.table("log").rows()
            assert (row["changes"], row["totals"]) == [(1, 0), (2, 1), (3, 4)][n - 1]
            home = handle.home.table("sums")
        home.spark.uncommit_last()


@pytest.mark.parametrize("views", ["sqlite", "none"])
def test_a_reader_that_comes_later_begins_with_the_rows_that_are_there(views: str, tmp_path: Path) -> None:
    with drive(chained("later"), home=tmp_path, views=views) as d:
        d.push("rows", [{"k": "a", "x": 1}, {"k": "b", "x": 5}])
        d.push("rows", [{"k": "a", "x": 2}])
    with drive(chained("later", "log"), home=tmp_path, views=views) as d:
        assert newest(d, "log") == {"a": (1, 3), "b": (1, 5)}
        d.crash()
        d.push("rows", [{"k": "a", "x": 10}])
        d.restart()
        assert newest(d, "log") == {"a": (2, 16), "b": (1, 5)}
    with drive(chained("later", "log", "more"), home=tmp_path, views=views) as d:
        assert newest(d, "log") == {"a": (2, 16), "b": (1, 5)}
        assert newest(d, "more") == {"a": (1, 13), "b": (1, 5)}


def logged(d: Driver, table: str) -> list[Row]:
    hook = d.handle.hooks[table]
    return list(changes.rows(hook.log, hook.schema))


def newest(d: Driver, table: str) -> dict[str, tuple[int, int]]:
    """The newest of a table's changes, since there may be no view."""
    return {c["k"]: (c["changes"], c["totals"]) for c in logged(d, table)}


def test_the_batch_of_a_snapshot_that_runs_again_is_not_given_twice(tmp_path: Path) -> None:
    """The view has the batch, Spark has not committed it, and a reader begins."""
    with drive(chained("twice"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        d.push("rows", [{"k": "a", "x": 2}])
        home = d.handle.home.table("sums")
    home.spark.uncommit_last()
    with drive(chained("twice", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [3]))
        d.push("rows", [{"k": "a", "x": 4}])
        assert d.rows("log") == seen(("a", [3, 7]))


@pytest.mark.parametrize("views", ["sqlite", "none"])
def test_a_published_batch_that_spark_has_not_committed_is_part_of_a_snapshot(
    views: str, tmp_path: Path
) -> None:
    for name in ("twice", "again"):
        app = f"{name}-{views}".replace("-", "_")
        with drive(chained(app), home=tmp_path, views=views) as d:
            d.push("rows", [{"k": "a", "x": 1}, {"k": "b", "x": 7}])
            point = FaultPoint.BATCH_PUBLISHED
            with handled_by(deadly(point, "sums")), pytest.raises(QueryFailed):
                d.push("rows", [{"k": "a", "x": 2}])
        with drive(chained(app, "log"), home=tmp_path, views=views) as d:
            assert newest(d, "log") == {"a": (1, 3), "b": (1, 7)}
            d.push("rows", [{"k": "a", "x": 4}])
            assert newest(d, "log") == {"a": (2, 10), "b": (1, 7)}


def test_a_batch_whose_changes_nobody_kept_is_published_again_for_its_first_reader(tmp_path: Path) -> None:
    """Without views and readers, changes are only counted."""

    def running(*readers: str) -> Any:
        spec = bounded(3, *readers).spec()
        return start.start(spec, spark=shared_session(), home=tmp_path, settings={"views": "none"})

    with (
        handled_by(deadly(FaultPoint.BATCH_PUBLISHED, "sums")),
        running() as handle,
        pytest.raises(QueryFailed),
    ):
        handle.drain()
    with running("log") as handle:
        handle.drain()
        sums, log = handle.hooks["sums"], handle.hooks["log"]
        assert [(c["k"], c["total"]) for c in changes.rows(sums.log, sums.schema)] == [("a", 3)]
        assert log.counts["change"] == 1


@pytest.mark.parametrize("point", [FaultPoint.SNAPSHOT_WRITTEN, FaultPoint.SNAPSHOT_RECORDED])
def test_a_first_start_that_was_cut_short_begins_anew(point: FaultPoint, tmp_path: Path) -> None:
    with drive(chained("short"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    with (
        handled_by(deadly(point, "log")),
        pytest.raises(Died),
        drive(chained("short", "log"), home=tmp_path),
    ):
        pass
    with drive(chained("short"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 2}])
    with drive(chained("short", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [3]))
        d.push("rows", [{"k": "a", "x": 4}])
        assert d.rows("log") == seen(("a", [3, 7]))


def test_a_snapshot_is_removed_once_its_batch_can_not_run_again(tmp_path: Path) -> None:
    with drive(chained("removed"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    with drive(chained("removed", "log"), home=tmp_path) as d:
        directory = d.handle.home.table("log").path / "inputs" / "0-sums"
        assert (directory / readers.SNAPSHOT).exists()
        d.crash()
        assert d.rows("log") == seen(("a", [1]))
        for _ in range(3):
            d.push("rows", [{"k": "a", "x": 1}])
        assert [file.name for file in directory.iterdir()] == ["use.json"]
        d.crash()
        assert d.rows("log") == seen(("a", [1, 2, 3, 4]))


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


def test_a_reader_that_was_left_out_goes_on_if_the_log_has_all_that_it_needs(tmp_path: Path) -> None:
    """An enrichment needs no rows before the changes, which nobody asked for while it was left out."""

    def declared(*, enriched: bool) -> kf.App:
        app = kf.App("back")
        rows = app.stream("rows", kf.rows([]), schema="k string, x int")
        sums = rows.by("k").table("sums", total="sum(x)")
        asked = app.stream("asked", kf.rows([]), schema="k string")
        if enriched:
            asked.enrich(sums).by("k").latest().table("answers", total="total")
        else:
            asked.by("k").table("counts", n="count(*)")
        return app

    with drive(declared(enriched=True), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
    with drive(declared(enriched=False), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 2}])
    with drive(declared(enriched=True), home=tmp_path) as d:
        d.push("asked", [{"k": "a"}])
        assert d.rows("answers") == [{"k": "a", "total": 3}]
        sums = d.handle.hooks["sums"].log
        d.push("rows", [{"k": "a", "x": 4}])
    with drive(declared(enriched=False), home=tmp_path) as d:
        for _ in range(12):
            d.push("rows", [{"k": "a", "x": 1}])
    assert retention.prune(sums, 4) == 4
    with (
        pytest.raises(StateMismatch, match="has missed changes of sums"),
        drive(declared(enriched=True), home=tmp_path),
    ):
        pass


def cut_short(home: AppHome, batch: int) -> Path:
    """Damages the changes of a batch of sums."""
    (part,) = home.table("sums").log.glob(f"data/{batch}-*/part-change*")
    part.write_bytes(part.read_bytes()[:-1])
    return part


def test_a_log_that_is_damaged_while_it_is_read_is_named_with_the_way_out(tmp_path: Path) -> None:
    cut: list[Path] = []

    def damage(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.BATCH_PUBLISHED and facts == {"table": "sums", "batch": 1}:
            cut.append(cut_short(d.handle.home, 1))

    with drive(chained("damaged", "log"), home=tmp_path, views="none") as d:
        d.push("rows", [{"k": "a", "x": 1}])
        with handled_by(damage), pytest.raises(QueryFailed, match="the log of damaged") as failed:
            d.push("rows", [{"k": "a", "x": 2}])
        assert failed.value.table == "log"
        text = str(failed.value)
        assert re.search(
            r"the log of damaged\.sums is damaged: tables/sums/log/data/1-\w+/\S+ has \d+ bytes", text
        )
        assert str(cut[0]) in text
        assert "`keyfold reset damaged.log`, after which it starts from the rows that sums has now" in text


def test_a_log_that_is_damaged_at_a_start_is_named_and_read_once_it_is_restored(tmp_path: Path) -> None:
    with drive(chained("cut", "log"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": 1}])
        d.handle.queries["log"].stop()
        d.push("rows", [{"k": "a", "x": 2}])
        home = d.handle.home
        (part,) = home.table("sums").log.glob("data/1-*/part-change*")
        content = part.read_bytes()
    cut_short(home, 1)
    with (
        pytest.raises(HomeUnusable, match="is damaged: it has") as refused,
        drive(chained("cut", "log"), home=tmp_path),
    ):
        pass
    assert str(part) in str(refused.value)
    part.write_bytes(content)
    with drive(chained("cut", "log"), home=tmp_path) as d:
        assert d.rows("log") == seen(("a", [1, 3]))


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
            (found,) = logged(d, reader)
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
