"""The command line on real runs: a few, shared by many tests, since each starts a JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import pytest

import keyfold as kf
from tests.cli.conftest import Cli, Result, write

pytestmark = pytest.mark.jvm

KEYFOLD = [sys.executable, "-m", "keyfold"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("KEYFOLD_")},
    "KEYFOLD_DRIVER_MEMORY": "1g",
    "KEYFOLD_MASTER": "local[2]",
    "NO_COLOR": "1",
}
ORDERS = """
import keyfold as kf
from pyspark.sql import functions as F
from prices import gross

print("the app's own words")

def with_gross(df):
    return df.withColumn("gross", F.udf(lambda amount: gross(amount), "double")("amount"))

app = kf.App("shop")
orders = app.stream("orders", kf.files("data"), schema="region string, amount double")
orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
orders.where("region is not null").transform(with_gross).by("region").table("taxed", gross="sum(gross)")
"""
FIRST = """{"region": "eu", "amount": 10.0}
{"region": "us", "amount": 2.5}
{"region": "eu", "amount": 1.0}
{"region": null, "amount": 3.0}
{"region": "eu", "am
"""


def keyfold(where: Path, *words: object, **variables: str) -> Result:
    command, environment = [*KEYFOLD, *map(str, words)], {**ENVIRONMENT, **variables}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    return Result(done.returncode, done.stdout, done.stderr)


def app_in(directory: Path, text: str = ORDERS, first: str = FIRST) -> Path:
    (directory / "data").mkdir(parents=True)
    write(directory / "data" / "first.json", first)
    write(directory / "prices.py", "def gross(amount):\n    return None if amount is None else amount * 2\n")
    write(directory / "shop.py", text)
    return directory


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an app with its data."""
    return app_in(tmp_path_factory.mktemp("run") / "shop")


@dataclass(frozen=True)
class Drained(Result):
    """What `keyfold run --drain` said, and the temporary files that were there when it had ended."""

    left: list[str]


@pytest.fixture(scope="module")
def drained(shop: Path) -> Drained:
    done = keyfold(shop, "run", "shop.py", "--drain", "--json")
    return Drained(done.code, done.out, done.err, [path.name for path in temporary_files(shop)])


def temporary_files(where: Path) -> list[Path]:
    """All that is left of the temporary directories of runs; the lock on them stays."""
    return [path for path in (where / ".keyfold" / ".tmp").rglob("*") if path.name != "lock"]


@pytest.fixture
def at_home(shop: Path, drained: Result, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shop)
    return shop


def files_of(home: Path) -> dict[str, bytes]:
    # SQLite makes and removes files of its own when a view is read.
    found = (path for path in home.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(home)): path.read_bytes() for path in found}


class TestDrained:
    def test_the_status_is_the_one_document(self, drained: Result, shop: Path) -> None:
        assert drained.code == 0, drained.err
        assert drained.json["app"] == "shop"
        assert drained.json["home"] == str(shop / ".keyfold" / "shop")
        assert drained.json["ended"] == "drained"
        totals = drained.json["tables"]["totals"]
        assert (totals["batch"], totals["keys"], totals["rejected"]) == (0, 2, 1)
        assert drained.json["streams"]["orders"]["rejected"] == 1, "two tables read it: it is parsed once"
        assert totals["running"] is False

    def test_its_temporary_files_end_with_it(self, drained: Drained) -> None:
        assert drained.left == []

    def test_progress_and_the_apps_words_are_on_stderr(self, drained: Result) -> None:
        assert "the app's own words" in drained.err
        assert "keyfold: shop is running in" in drained.err
        assert "totals, taxed" in drained.err

    def test_get(self, at_home: Path, cli: Cli) -> None:
        row = cli("get", "shop.totals", "eu", "--json").json
        assert (row["n"], row["revenue"], row["_batch"]) == (2, 11.0, 0)

    def test_functions_of_the_file_and_of_its_neighbours_reach_the_workers(
        self, at_home: Path, cli: Cli
    ) -> None:
        assert cli("get", "taxed", "eu", "--json").json["gross"] == 22.0

    def test_rows(self, at_home: Path, cli: Cli) -> None:
        rows = cli("rows", "totals", "--json", "--order-by", "revenue desc").json
        assert [(row["region"], row["n"]) for row in rows] == [("eu", 2), ("us", 1)]

    def test_rejected_of_the_stream_each_row_once(self, at_home: Path, cli: Cli) -> None:
        rows = cli("side", "show", "rejected", "orders", "--json").json["rows"]
        assert len(rows) == 2
        assert {row["batch"] for row in rows} == {0}
        assert any('"am' in row["raw"] for row in rows)
        of_table = [row for row in rows if row["reason"] == "key region is null"]
        assert cli("side", "show", "rejected", "totals", "--json").json["rows"] == of_table
        assert "shop.orders" in cli("side", "show", "rejected", "totals").err

    def test_check_says_that_the_state_fits_and_writes_nothing(self, at_home: Path) -> None:
        before = files_of(at_home / ".keyfold")
        found = keyfold(at_home, "check", "shop.py")
        assert found.code == 0, found.err
        assert "shop.totals: OK, fits the state on disk" in found.out
        assert "n bigint, revenue double" in found.out
        assert files_of(at_home / ".keyfold") == before

    def test_check_finds_what_is_wrong_with_every_table(self, at_home: Path) -> None:
        other = ORDERS.replace("sum(amount)", "max(amount)")
        more = """
orders.by("region").table("lost", n="sum(amuont)")
orders.by("region").table("plain", n="amount")
orders.by("region").table("fine", n="count(*)")
app.stream("given", kf.rows([{"a": "x"}]), schema="a string").by("a").table("fixed", n="count(*)")
"""
        write(at_home / "other.py", other + more)
        before = files_of(at_home / ".keyfold")
        found = keyfold(at_home, "check", "other.py", "--json")
        assert found.code == 2, found.err
        tables = {table["name"]: table for table in found.json["tables"]}
        assert {name: (t["ok"], t["state"]) for name, t in tables.items()} == {
            "totals": (False, "differs"),
            "taxed": (True, "fits"),
            "lost": (False, None),
            "plain": (False, None),
            "fine": (True, "new"),
            "fixed": (True, "new"),
        }
        assert tables["totals"]["error"]["kind"] == "StateMismatch"
        assert "amuont" in tables["lost"]["error"]["text"]
        assert "amount" in tables["lost"]["error"]["text"]
        assert "not an aggregate" in tables["plain"]["error"]["text"]
        assert tables["fine"]["columns"] == [{"name": "n", "type": "bigint"}]
        assert files_of(at_home / ".keyfold") == before

    def test_a_state_of_another_definition_is_refused_and_left_alone(self, at_home: Path) -> None:
        write(at_home / "changed.py", ORDERS.replace("sum(amount)", "max(amount)"))
        before = self.without_lease(at_home / ".keyfold" / "shop")
        found = keyfold(at_home, "run", "changed.py", "--drain", "--json")
        assert found.code == 2
        assert found.json["error"]["kind"] == "StateMismatch"
        assert "Traceback" not in found.err
        assert self.without_lease(at_home / ".keyfold" / "shop") == before, "it only held the lease"

    @staticmethod
    def without_lease(place: Path) -> dict[str, bytes]:
        return {name: content for name, content in files_of(place).items() if not name.startswith("lease/")}


class Running:
    """A `keyfold run` in the background."""

    def __init__(self, where: Path, *words: str) -> None:
        self.errors = where / "stderr.txt"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [*KEYFOLD, "run", *words], cwd=where, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors
            )

    def until(self, text: str) -> None:
        """Waits for words on stderr."""
        from keyfold.engine.polling import wait_until

        def said() -> bool:
            return text in self.errors.read_text() or self.process.poll() is not None

        assert wait_until(said, 120)
        assert text in self.errors.read_text(), self.errors.read_text()

    def ended_by(self, number: signal.Signals) -> Result:
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> Result:
        out, _ = self.process.communicate(timeout=120)
        return Result(self.process.returncode, out.decode(), self.errors.read_text())


def closed(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


@pytest.fixture
def running(request: pytest.FixtureRequest) -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        closed(one.process.stdout)


def test_a_running_app_is_read_guarded_and_stopped(
    tmp_path: Path, cli: Cli, running: list[Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = app_in(tmp_path / "live", ORDERS.partition("orders.where")[0])
    monkeypatch.chdir(where)
    running.append(Running(where, "shop.py", "--set", f"local={where / 'views'}"))
    running[0].until("shop is running in")
    running[0].until("keyfold: serving on http://127.0.0.1:")
    url = running[0].errors.read_text().partition("keyfold: serving on ")[2].split(";")[0].split()[0]
    with urlopen(f"{url}/api/tables/totals/keys/eu?at_least=0&wait=60s", timeout=90) as served:
        assert json.load(served)["row"]["n"] == 2
    assert cli("get", "totals", "eu", "--json", "--wait", "60s").json["n"] == 2
    # As a notebook does it, by a path alone: of the home, or of the local files.
    attached = [kf.read_table("shop.totals", home=where / place) for place in (".keyfold", "views")]
    assert [(table.get("eu", at_least=0, wait="60s") or {})["n"] for table in attached] == [2, 2]

    write(where / "second.json", '{"region": "eu", "amount": 5.0}\n').rename(where / "data" / "second.json")
    row = cli("get", "totals", "eu", "--at-least", 1, "--wait", "60s", "--json").json
    assert (row["n"], row["revenue"]) == (3, 16.0)
    assert [(table.get("eu", at_least=1, wait="60s") or {})["n"] for table in attached] == [3, 3]
    assert cli("side", "show", "rejected", "orders", "--json").json["rejected"] == 2

    held = keyfold(where, "run", "shop.py", "--drain", "--json")
    assert held.code == 3, "a supervisor must not start it again"
    assert held.json["error"]["kind"] == "HomeLocked"
    assert f"pid {running[0].process.pid}" in held.err

    ended = running[0].ended_by(signal.SIGTERM)
    assert ended.code == 0, ended.err
    assert "SIGTERM: stopping after the current batch" in ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert ["shop.totals", "1", "6", "2", "0", "2"] in lines
    assert "Traceback" not in ended.err


def test_a_signal_before_the_app_is_up(tmp_path: Path, running: list[Running]) -> None:
    where = app_in(tmp_path / "early")
    running.append(Running(where, "shop.py", "--json"))
    running[0].until("keyfold: starting shop")
    ended = running[0].ended_by(signal.SIGINT)
    assert ended.code == 130
    assert json.loads(ended.out)["error"]["kind"] == "Interrupted"
    assert "Traceback" not in ended.err
    assert temporary_files(where) == []


WAITING = """
import os, signal, threading
import keyfold as kf

def interrupted(df):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    df.sparkSession._jvm.java.lang.Thread.sleep(120_000)
    return df

app = kf.App("shop")
orders = app.stream("orders", kf.rows([{"k": "a"}]), schema="k string")
orders.transform(interrupted).by("k").table("totals", n="count(*)")
"""


def test_an_interrupt_while_java_is_at_work_prints_no_trace(tmp_path: Path) -> None:
    write(tmp_path / "shop.py", WAITING)
    ended = keyfold(tmp_path, "run", "shop.py")
    assert ended.code == 130
    assert ended.err.splitlines() == [
        "keyfold: starting shop from shop.py",
        "stopped during the start; no row was processed",
    ]
    assert temporary_files(tmp_path) == []


def test_a_query_that_fails_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    text = ORDERS.partition("orders.where")[0].replace('revenue="sum(amount)"', 'on_error="fail"')
    where = app_in(tmp_path / "fail", text)
    found = keyfold(where, "run", "shop.py", "--for", "2 minutes", "--json")
    assert found.code == 1
    assert found.json["error"]["kind"] == "QueryFailed"
    assert "on_error is 'fail'" in found.err
    assert "where: shop.totals, batch 0" in found.err
    assert "Traceback" not in found.err


BARE = """
import keyfold as kf

app = kf.App("shop")
orders = app.stream("orders", kf.files("data", format="csv"), schema="region string, amount double")
orders.by("region").table("totals", n="count(*)", revenue="sum(amount)")
"""


def test_a_drain_that_rejects_all_there_is_says_so_and_fails(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write(tmp_path / "shop.py", BARE)
    write(tmp_path / "data" / "bare.csv", "eu,1\n" * 30)
    done = keyfold(tmp_path, "run", "shop.py", "--drain", "--json")
    assert done.code == 1, done.err
    table = done.json["tables"]["totals"]
    assert (table["rejected"], table["rejecting"]["share"], table["all_rejected"]) == (1, 1.0, True)
    said = "WARNING: shop.totals rejected 100% of the rows of batch 0 (29): the header of bare.csv is eu,1"
    assert said in done.err
    assert "every row was rejected" in done.err
    status = keyfold(tmp_path, "status")
    assert "WARNING: shop.totals rejected 100%" in status.out
    found = keyfold(tmp_path, "side", "show", "rejected", "shop.orders", "--json").json["rows"]
    assert [r["file"] for r in found] == [str(tmp_path / "data" / "bare.csv")]
    assert [r["raw"] for r in found] == ["eu,1\n" * 4 + "eu,1"]

    write(tmp_path / "data" / "good.csv", "region,amount\nus,1\neu,many\n")
    done = keyfold(tmp_path, "run", "shop.py", "--drain", "--json")
    assert done.code == 0, done.err
    assert "WARNING" not in done.err
    shown = keyfold(tmp_path, "side", "show", "rejected", "shop.orders", "--limit", 1).out
    assert "good.csv, line 3" in shown
    assert 'column amount: "many" is not a valid double' in shown


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["nothing.py"], "BadApp"),
        (["shop.py", "--for", "soon"], "BadDuration"),
        (["shop.py", "--home", "s3://bucket"], "BadOption"),
    ],
)
def test_a_mistake_is_found_before_a_jvm_starts(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], kind: str
) -> None:
    where = app_in(tmp_path / "app", ORDERS.partition("orders.where")[0])
    monkeypatch.chdir(where)
    monkeypatch.syspath_prepend(where)
    found = cli("run", *words, "--json")
    assert found.code == 2
    assert found.json["error"]["kind"] == kind


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    where = app_in(tmp_path / "app", ORDERS.partition("orders.where")[0])
    write(where / "file", "")
    found = keyfold(where, "run", "shop.py", "--home", "file", "--json")
    assert found.code == 1
    assert found.json["error"]["kind"] == "HomeUnusable"


PLAIN = """
import keyfold as kf

app = kf.App("plain")
schema = "region string, amount double, at timestamp"
orders = app.stream("orders", kf.files("data"), schema=schema, time="at")
regions = orders.by("region")
totals = regions.table("totals", n="count(*)", revenue="sum(amount)")
regions.tumbling("1 hour").table("hourly", n="count(*)")
totals.changes().by(all="1").table("all", regions="count(*)")
"""


def test_an_app_that_is_as_it_last_started_is_compared_with_its_home_without_java(tmp_path: Path) -> None:
    shop, without = app_in(tmp_path / "plain", PLAIN), {"JAVA_HOME": "/nowhere"}
    assert keyfold(shop, "run", "shop.py", "--drain").code == 0
    record, before = shop / ".keyfold" / "plain" / "compiled.json", files_of(shop / ".keyfold")
    found = keyfold(shop, "check", "shop.py", "--json", **without)
    assert found.code == 0, found.err
    assert "nothing has to be compiled" in found.err
    planned = keyfold(shop, "plan", "shop.py", "--json", **without)
    assert planned.code == 0, planned.err
    assert {one["change"] for one in planned.json["tables"]} == {"same"}
    migrated = keyfold(shop, "migrate", "shop.py", **without)
    assert (migrated.code, migrated.out) == (0, "nothing to migrate\n")
    assert files_of(shop / ".keyfold") == before

    table, kept = shop / ".keyfold" / "plain" / "tables" / "hourly", shop / "kept"
    for lost in (table, table / "checkpoint" / "offsets" / "0"):
        lost.rename(kept)
        for command in ("check", "plan"):
            damaged = keyfold(shop, command, "shop.py", **without)
            assert (damaged.code, "is missing" in f"{damaged.out}{damaged.err}") == (1, True), damaged
        kept.rename(lost)

    write(shop / "other.py", PLAIN.replace("sum(amount)", "max(amount)"))
    for command in ("check", "plan", "migrate"):
        assert "no Java found" in keyfold(shop, command, "other.py", **without).err
    record.unlink()
    compiled = keyfold(shop, "check", "shop.py", "--json")
    assert (compiled.code, compiled.json) == (0, found.json)
    assert "nothing has to be compiled" not in compiled.err
