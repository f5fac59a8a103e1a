"""Mistakes of a user's that only Spark or the disk can see: one clear message each, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.storage import lease_takeover
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease_files import LeaseFiles
from keyfold.engine.storage.processes import this_host
from keyfold.errors import (
    BadApp,
    BadExpression,
    BadOption,
    ConnectRefused,
    HomeLocked,
    HomeUnusable,
    QueryFailed,
    StateMismatch,
)
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import drive, shared_session
from tests.storage.lease_contract import record

pytestmark = pytest.mark.jvm

SCHEMA = "id string, region string, amount double, x int, at timestamp"
Declare = Callable[[kf.Stream], Any]


def app_with(declare: Declare, schema: str = SCHEMA, **stream: Any) -> kf.App:
    app = kf.App("shop")
    declare(app.stream("orders", kf.rows([]), schema=schema, **stream))
    return app


def refused(declare: Declare) -> str:
    """What is said of a declaration that Spark refuses."""
    with pytest.raises(BadExpression) as error, drive(app_with(declare)):
        pass
    text = str(error.value)
    assert "shop.t" in text, "names the table"
    assert "test_bad_input.py:" in text, "names the user's line"
    assert "org.apache" not in text
    assert "SQLSTATE" not in text
    assert "\n" not in error.value.what
    return text


def test_an_app_without_tables_has_nothing_to_run(tmp_path: Path) -> None:
    app = kf.App("empty")
    app.stream("orders", kf.rows([]), schema=SCHEMA)
    with pytest.raises(BadApp, match="no tables"):
        app.start(home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


MISSPELT: dict[str, tuple[Declare, str]] = {
    "where": (lambda s: s.where("amout > 0").by("region").table("t", n="count(*)"), "amout"),
    "select": (lambda s: s.select("*", y="amout * 2").by("region").table("t", n="count(*)"), "amout"),
    "key": (lambda s: s.by("regoin").table("t", n="count(*)"), "regoin"),
    "named key": (lambda s: s.by(k="upper(regoin)").table("t", n="count(*)"), "regoin"),
    "column": (lambda s: s.by("region").table("t", total="sum(amout)"), "amout"),
    "filter": (lambda s: s.by("region").table("t", n="count(*) filter (where amout > 0)"), "amout"),
    "fold": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "0D"}, update={"v": "amout"})),
        "amout",
    ),
    "state": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"value": "0D"}, update={"value": "state.valu"})),
        "valu",
    ),
}


@pytest.mark.parametrize("place", MISSPELT)
def test_an_unknown_column_is_named_with_its_place_and_a_suggestion(place: str) -> None:
    declare, word = MISSPELT[place]
    text = refused(declare)
    assert word in text
    suggestion = {"amout": "amount", "regoin": "region", "valu": "value"}[word]
    assert suggestion in text


def test_an_unknown_function_and_broken_sql_are_named() -> None:
    text = refused(lambda s: s.by("region").table("t", total="summ(amount)"))
    assert "no function" in text
    assert "did you mean 'sum'" in text
    text = refused(lambda s: s.by("region").table("t", total="sum(amount"))
    assert "column total" in text
    assert "sum(amount" in text
    text = refused(lambda s: s.where("amount >> ").by("region").table("t", n="count(*)"))
    assert "where" in text


REFUSED: dict[str, tuple[Declare, str]] = {
    "column": (lambda s: s.by("region").table("t", revenue="amount"), "aggregate"),
    "expression": (lambda s: s.by("region").table("t", n="count(*)", revenue="x + 1"), "aggregate"),
    "literal": (lambda s: s.by("region").table("t", one="1"), "aggregate"),
    "column named like an option": (lambda s: s.by("region").table("t", total="amount"), "aggregate"),
    "key as column": (lambda s: s.by("region").table("t", name="upper(region)"), "aggregate"),
    "aggregate and column": (lambda s: s.by("region").table("t", total="sum(x) + amount"), "aggregate"),
    "aggregate in where": (lambda s: s.where("count(*) > 1").by("region").table("t", n="count(*)"), "where"),
    "aggregate in select": (lambda s: s.select(k="max(id)").by("k").table("t", n="count(*)"), "transform"),
    "aggregate as key": (lambda s: s.by(k="max(id)").table("t", n="count(*)"), "key k"),
    "nested aggregate": (lambda s: s.by("region").table("t", n="sum(count(*))"), "column n"),
    "number as condition": (lambda s: s.where("amount").by("region").table("t", n="count(*)"), "where"),
    "explode": (
        lambda s: s.select("*", w="explode(split(id, ' '))").by("w").table("t", n="count(*)"),
        "transform",
    ),
    "window": (
        lambda s: s.select(k="row_number() over (order by id)").by("k").table("t", n="count(*)"),
        "transform",
    ),
    "subquery": (lambda s: s.where("x > (select 1)").by("region").table("t", n="count(*)"), "subquery"),
    "in subquery": (lambda s: s.where("x in (select 1)").by("region").table("t", n="count(*)"), "subquery"),
    "subquery in column": (lambda s: s.by("region").table("t", n="sum(x + (select 1))"), "subquery"),
    "rand": (lambda s: s.where("rand() < 0.5").by("region").table("t", n="count(*)"), "rand()"),
    "rand in select": (lambda s: s.select("*", r="rand()").by("region").table("t", n="sum(r)"), "rand()"),
    "rand in column": (lambda s: s.by("region").table("t", n="sum(rand())"), "rand()"),
    "uuid": (lambda s: s.by(k="uuid()").table("t", n="count(*)"), "uuid()"),
    "rand in fold": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "0D"}, update={"v": "rand()"})),
        "rand()",
    ),
    "map as key": (lambda s: s.by(k="map(id, x)").table("t", n="count(*)"), "map"),
    "sum distinct": (lambda s: s.by("region").table("t", n="sum(distinct x)"), "distinct"),
    "two of a name": (lambda s: s.select("x", "amount as X").by("x").table("t", n="count(*)"), "two columns"),
    "zero and update": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "0"}, update={"v": "state.v + amount"})),
        "update of v gives DOUBLE, its zero is INT",
    ),
    "zero and merge": (
        lambda s: s.by("region").table(
            "t", v=kf.fold(zero={"v": "0"}, update={"v": "x"}, merge={"v": "state.v + 0.5D"})
        ),
        "merge of v gives DOUBLE, its zero is INT",
    ),
    "zero without type": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "null"}, update={"v": "x"})),
        "cast(null as",
    ),
    "zero of the row": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "x"}, update={"v": "x"})),
        "zero",
    ),
    "merge of the row": (
        lambda s: s.by("region").table(
            "t", v=kf.fold(zero={"v": "0"}, update={"v": "x"}, merge={"v": "state.v + x"})
        ),
        "state.v + x",
    ),
    "aggregate in fold": (
        lambda s: s.by("region").table("t", v=kf.fold(zero={"v": "0L"}, update={"v": "sum(x)"})),
        "update of v",
    ),
    "transform": (lambda s: s.transform(lambda df: 1).by("region").table("t", n="count(*)"), "DataFrame"),
    "column after transform": (
        lambda s: s.transform(lambda df: df.drop("x")).by("region").table("t", n="sum(x)"),
        "column n",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_kernel_cannot_keep_exact_is_refused_with_the_reason(what: str) -> None:
    declare, words = REFUSED[what]
    assert words in refused(declare)


def test_a_python_function_is_refused_by_name() -> None:
    from pyspark.sql import functions as F

    def twice(x):  # type: ignore[no-untyped-def]  # Spark would take hints for the signature of a pandas function
        return 2 * x

    text = refused(
        lambda s: s.select("*", y=lambda: F.udf(twice, "int")("x")).by("region").table("t", n="sum(y)")
    )
    assert "twice is a Python function" in text
    assert "transform" in text
    shared_session().udf.register("twice", twice, "int")
    assert "twice is a Python function" in refused(lambda s: s.by("region").table("t", n="sum(twice(x))"))


def test_a_union_of_streams_that_do_not_fit_says_so() -> None:
    app = kf.App("shop")
    left = app.stream("left", kf.rows([]), schema="k string, x int")
    right = app.stream("right", kf.rows([]), schema="k string, y int")
    left.union(right).by("k").table("t", n="count(*)")
    with pytest.raises(BadExpression, match="left and right") as error, drive(app):
        pass
    assert "x" in error.value.what


def test_spark_connect_is_refused_with_the_reason(tmp_path: Path) -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    app = app_with(lambda s: s.by("region").table("t", n="count(*)"))
    with pytest.raises(ConnectRefused, match="JVM"):
        app.start(spark=session, home=tmp_path)
    with start.start(app.spec(), spark=shared_session(), home=tmp_path):
        pass  # the home was released


def test_a_schema_and_a_source_that_spark_cannot_read_are_named(tmp_path: Path) -> None:
    app = app_with(
        lambda s: s.by("region").table("t", n="count(*)"), schema="id string, region decimal(99, 2)"
    )
    with pytest.raises(BadExpression, match="orders"), drive(app):
        pass
    app = app_with(lambda s: s.by("region").table("t", n="count(*)"), schema="region varchar(3)")
    with pytest.raises(BadExpression, match="varchar"), drive(app):
        pass
    missing = kf.App("shop")
    source = missing.stream("orders", kf.files(tmp_path / "nowhere"), schema=SCHEMA)
    source.by("region").table("t", n="count(*)")
    with pytest.raises(BadOption, match="nowhere"):
        start.start(missing.spec(), spark=shared_session(), home=tmp_path / "home")
    unknown = kf.App("shop")
    unknown.stream("orders", kf.spark("no-such-format"), schema=SCHEMA).by("region").table("t", n="count(*)")
    with pytest.raises(kf.errors.KeyfoldError, match="no-such-format") as error:
        start.start(unknown.spec(), spark=shared_session(), home=tmp_path / "home")
    assert "org.apache" not in str(error.value)


def counting() -> kf.App:
    return app_with(lambda s: s.by("region").table("t", n="count(*)"))


def test_a_home_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(HomeUnusable, match="can't be written") as error:
        counting().start(home=file)
    assert str(file) in str(error.value)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "shop").write_text("in the way")
    with pytest.raises(HomeUnusable):
        counting().start(home=tmp_path / "home")
    (tmp_path / "broken" / "shop").mkdir(parents=True)
    (tmp_path / "broken" / "shop" / "app.json").write_text("{")
    with pytest.raises(HomeUnusable, match=r"app\.json"), drive(counting(), home=tmp_path / "broken"):
        pass
    assert file.read_text() == "in the way"


HOLD = """
import sys
from pathlib import Path
from keyfold.engine.storage.layout import local_app_home
from keyfold.engine.storage.lease import Lease
lease = Lease(local_app_home(Path(sys.argv[1]), "shop")).take()
lease.holds_jvm(int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_home_is_held_by_one_process_and_a_dead_holders_lease_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_takeover, "ORPHAN_SECONDS", 0.2)
    idle = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(idle, stdin=subprocess.PIPE) as jvm:
        command = [sys.executable, "-c", HOLD, str(tmp_path), str(jvm.pid)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "held\n"
            with pytest.raises(HomeLocked, match=f"pid {owner.pid}"), drive(counting(), home=tmp_path):
                pass
            os.kill(owner.pid, signal.SIGKILL)
            owner.wait()
            owner.stdout.close()
        assert psutil.pid_exists(jvm.pid)
        with drive(counting(), home=tmp_path) as d:
            assert not psutil.pid_exists(jvm.pid), "the orphan was ended before a query began"
            with pytest.raises(HomeLocked), drive(counting(), home=tmp_path):
                pass
            d.push("orders", [{"region": "eu"}])
            assert d.rows("t") == [{"region": "eu", "n": 1}]

    # A reused pid belongs to another process.
    with subprocess.Popen(idle, stdin=subprocess.PIPE) as stranger:
        other = {"pid": stranger.pid, "started": 1.0}
        files = LeaseFiles(AppHome(tmp_path / "shop").storage)
        assert files.create(record(9, stranger.pid, host=this_host(), python=other, jvm=other))
        with drive(counting(), home=tmp_path) as d:
            assert d.rows("t") == [{"region": "eu", "n": 1}]
        assert stranger.poll() is None
        stranger.kill()
    (tmp_path / "shop" / "lease" / "20.json").write_text("no json")
    with drive(counting(), home=tmp_path, lease_seconds=0.5) as d:
        assert d.rows("t") == [{"region": "eu", "n": 1}]


@pytest.mark.parametrize("step", [FaultPoint.BATCH_BEGUN, FaultPoint.PARTS_WRITTEN])
def test_a_full_disk_loses_nothing(step: FaultPoint) -> None:
    def full(point: FaultPoint, _: dict[str, Any]) -> None:
        if point == step:
            raise OSError(28, "No space left on device")

    with drive(counting()) as d:
        with handled_by(full):
            with pytest.raises(QueryFailed, match="no space left on the disk of") as stopped:
                d.push("orders", [{"region": "eu"}])
            assert "Traceback" not in str(stopped.value)
            assert d.rows("t") == []
        d.restart()
        assert d.rows("t") == [{"region": "eu", "n": 1}], "nothing was lost, and nothing applied twice"
        assert [c["n"] for c in d.changes("t")] == [1]


@pytest.mark.parametrize("column", ["count(*) over ()", "explode(array(1))"])
def test_what_is_no_aggregate_of_a_key_alone_is_refused(column: str) -> None:
    app = kf.App("odd")
    app.stream("rows", kf.rows([]), schema="k string, x int").by("k").table("t", odd=column)
    with pytest.raises(BadExpression, match="odd") as refused, drive(app):
        pass
    assert "Py4J" not in str(refused.value)


def test_a_table_renamed_in_case_alone_is_refused(tmp_path: Path) -> None:
    def named(table: str) -> kf.App:
        app = kf.App("cased")
        app.stream("rows", kf.rows([]), schema="k string").by("k").table(table, n="count(*)")
        return app

    with drive(named("totals"), home=tmp_path) as d:
        d.push("rows", [{"k": "a"}])
    with pytest.raises(StateMismatch, match="upper and lower case"), drive(named("Totals"), home=tmp_path):
        pass
