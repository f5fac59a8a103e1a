"""initial=: a table begins with files, then continues with its stream; every row counts once, recounted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.operations import unfinished
from keyfold.engine.savepoint.deletion import Deletion
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, StateMismatch
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import drive, shared_session
from tests.engine.children import environment
from tests.engine.recovery.test_migrate import Killed, killing

pytestmark = pytest.mark.jvm

Row = dict[str, Any]
SCHEMA = "customer string, amount int, t timestamp"


def rows(first: int, count: int) -> list[Row]:
    """Rows of three customers, a second apart."""
    return [
        {"customer": "abc"[i % 3], "amount": i % 7, "t": f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z"}
        for i in range(first, first + count)
    ]


OLD, NEW = rows(0, 40), rows(40, 20)


def written(directory: Path, found: list[Row], name: str = "a.json") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("".join(json.dumps(row) + "\n" for row in found))
    return directory


def app(history: Any, **stream: Any) -> kf.App:
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), SCHEMA, time="t", late="5 seconds", **stream)
    by = orders.by("customer")
    by.table("totals", n="count(*)", total="sum(amount)", initial=history)
    return made


def shown(d: Any) -> dict[str, tuple[int, int]]:
    return {row["customer"]: (row["n"], row["total"]) for row in d.rows("totals")}


def recount(found: list[Row]) -> dict[str, tuple[int, int]]:
    n, total = Counter[str](), Counter[str]()
    for row in found:
        n[row["customer"]] += 1
        total[row["customer"]] += row["amount"]
    return {one: (n[one], total[one]) for one in n}


def entry(home: Path) -> Mapping[str, Any]:
    found = AppHome(home / "shop").read_plan().tables["totals"].initial
    assert found is not None
    return found


def test_a_table_begins_with_files_and_goes_on_with_its_stream(tmp_path: Path) -> None:
    history = kf.files(written(tmp_path / "history", OLD))
    with drive(app(history), home=tmp_path / "home") as d:
        assert shown(d) == recount(OLD)
        # The stream repeats the end of the history: those rows are rejected, and counted.
        d.push("orders", OLD[-5:] + NEW)
        assert shown(d) == recount(OLD + NEW)
        rejected = d.rejected("totals")
        assert [json.loads(row["raw"])["t"][17:19] for row in rejected] == ["35", "36", "37", "38", "39"]
        assert "where the initial rows of the table end" in rejected[0]["reason"]
        d.crash()
        assert shown(d) == recount(OLD + NEW)
    found = entry(tmp_path / "home")
    assert (found["rows"], found["files"], found["left_out"], found["rejected"]) == (40, 1, 0, 0)
    assert (found["first"], found["last"]) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:39+00:00")
    assert found["until"] == "2026-01-01T00:00:39.000001+00:00"
    done = audit.entries(AppHome(tmp_path / "home" / "shop").storage)
    assert [(one["what"], one["rows"]) for one in done] == [("initial", 40)]
    # It counts before the first row alone, and may be left out afterwards.
    with drive(app(None), home=tmp_path / "home") as d:
        d.push("orders", OLD[:1])
        assert shown(d) == recount(OLD + NEW)
    with pytest.raises(StateMismatch, match="has state already, and began with files json"):
        drive(app(kf.files(tmp_path / "other")), home=tmp_path / "home").__enter__()


def kinds(history: Any = None, **stream: Any) -> kf.App:
    """A table of each kind, on a stream of its own unless it is shared."""
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), SCHEMA, time="t", late="5 seconds", **stream)
    by = orders.by("customer")
    by.table("totals", n="count(*)", total="sum(amount)", initial=history)
    by.table("expiring", n="count(*)", ttl="10 seconds", initial=history)
    spent = kf.fold(zero={"s": "0L"}, update={"s": "state.s * 2 + amount"}, result="state.s")
    by.table("folded", spent=spent, initial=history)
    by.tumbling("10 seconds").table("windows", n="count(*)", initial=history)
    by.sliding("10 seconds", every="5 seconds").table(
        "finals", n="sum(amount)", emit="final", initial=history
    )
    by.session("3 seconds").table("sessions", n="count(*)", initial=history)
    by.rolling("8 seconds").table("recent", total="sum(amount)", initial=history)
    by.last(4).table("few", total="sum(amount)", initial=history)
    by.top(2, by="amount desc").table("best", initial=history)
    once = orders.distinct("amount", within="20 seconds").by("customer")
    once.table("once", n="count(*)", initial=history)
    pair = kf.step("low", "amount < 2") >> kf.step("high", "amount > 4")
    by.pattern(
        "pairs", pair, within="30 seconds", returns={"sum": "low[0].amount + high[0].amount"}, initial=history
    )
    again = orders.select("customer as other", "t").by("other")
    again.table("selected", n="count(*)", initial=history)
    return made


@pytest.mark.parametrize("shared", [False, True])
def test_every_kind_of_table_ends_up_as_if_all_rows_were_of_the_stream(tmp_path: Path, shared: bool) -> None:
    history = kf.files(written(tmp_path / "history", OLD))
    made = kinds(history, shared=shared)
    names = [table.name for table in made.spec().tables]
    found: dict[str, Any] = {}
    with drive(made, home=tmp_path / "begun") as d:
        d.push("orders", OLD[-3:] + NEW[:8])
        d.crash()
        d.push("orders", NEW[8:])
        found = {name: d.rows(name) for name in names}
    with drive(kinds(shared=shared), home=tmp_path / "clean") as d:
        for some in (OLD, NEW[:8], NEW[8:]):
            d.push("orders", some)
        for name in names:
            assert found[name] == d.rows(name), name
    assert all(found.values())


def test_parquet_up_to_a_time_and_rows_that_are_left_out(tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    made = shared_session().createDataFrame(
        [(r["customer"], r["amount"], r["t"]) for r in OLD], "customer string, amount int, t string"
    )
    made.select("customer", "amount", F.to_timestamp("t").alias("t"), F.lit(1).alias("more")).write.parquet(
        str(tmp_path / "history")
    )
    history = kf.initial(kf.files(tmp_path / "history", format="parquet"), until="2026-01-01T00:00:30Z")
    with drive(app(history), home=tmp_path / "home") as d:
        assert shown(d) == recount(OLD[:30])
        d.push("orders", OLD[25:] + NEW)
        assert shown(d) == recount(OLD + NEW)
        assert len(d.rejected("totals")) == 5
    found = entry(tmp_path / "home")
    assert (found["rows"], found["left_out"], found["until"]) == (30, 10, "2026-01-01T00:00:30+00:00")
    other = kf.App("other")
    wrong = other.stream(
        "orders", kf.rows([]), "customer string, amount bigint, t timestamp, city string", time="t"
    )
    wrong.by("customer").table("totals", n="count(*)", initial=history)
    with pytest.raises(BadOption) as refused, drive(other, home=tmp_path / "home"):
        pass
    assert refused.value.given == (
        "amount: bigint in the stream, int in the files\ncity: string in the stream, missing in the files"
    )


POINTS = [FaultPoint.INITIAL_READY, FaultPoint.MIGRATION_RECORDED, FaultPoint.MIGRATION_SWITCHED]
CHILD = """
import os, signal, sys
import keyfold as kf
from keyfold.fault_points import FaultPoint, handled_by

def die(reached, facts):
    if reached == FaultPoint.BATCH_PUBLISHED and facts["batch"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)

app = kf.App("shop")
orders = app.stream("orders", kf.files(sys.argv[1]), "customer string, amount int, t timestamp", time="t")
history = kf.files(sys.argv[2], maxFilesPerTrigger=1)
orders.by("customer").table("totals", n="count(*)", total="sum(amount)", initial=history)
if __name__ == "__main__":
    with handled_by(die):
        app.start(home=sys.argv[3], master="local[1]", driver_memory="1g")
"""


def test_kill_9_in_the_middle_of_the_history_begins_it_again(tmp_path: Path) -> None:
    live = written(tmp_path / "live", NEW)
    for number in range(4):
        written(tmp_path / "old", OLD[number * 10 : number * 10 + 10], f"{number}.json")
    (tmp_path / "child.py").write_text(CHILD)
    home = tmp_path / "home"
    command = [sys.executable, tmp_path / "child.py", live, tmp_path / "old", home]
    with (tmp_path / "said").open("w") as said:
        ended = subprocess.run(command, stdout=said, stderr=said, timeout=280, check=False, env=environment())
    assert ended.returncode == -signal.SIGKILL, (tmp_path / "said").read_text()
    app_home = AppHome(home / "shop")
    assert (app_home.path / "migrating").exists()
    assert app_home.table("totals").planned_batch() is None
    made = kf.App("shop")
    orders = made.stream("orders", kf.files(live), SCHEMA, time="t")
    history = kf.files(tmp_path / "old", maxFilesPerTrigger=1)
    orders.by("customer").table("totals", n="count(*)", total="sum(amount)", initial=history)
    with made.start(home=home, spark=shared_session()) as handle:
        handle.drain()
        found = {row["customer"]: (row["n"], row["total"]) for row in handle.table("totals").rows()}
    assert found == recount(OLD + NEW)
    assert (entry(home)["files"], entry(home)["batch"]) == (4, 3)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_nothing_or_all_of_the_initial_rows(tmp_path: Path, point: FaultPoint) -> None:
    made = app(kf.files(written(tmp_path / "history", OLD)))
    with killing(point), pytest.raises(Killed), drive(made, home=tmp_path / "home"):
        pass
    with drive(made, home=tmp_path / "home") as d:
        assert shown(d) == recount(OLD)
        d.push("orders", NEW)
        assert shown(d) == recount(OLD + NEW)
    assert len(audit.entries(AppHome(tmp_path / "home" / "shop").storage)) == 1


def test_sinks_and_tables_of_the_table_get_the_initial_rows_too(tmp_path: Path) -> None:
    made = kf.App("shop")
    orders = made.stream("orders", kf.rows([]), SCHEMA, time="t")
    totals = orders.by("customer").table(
        "totals", n="count(*)", initial=kf.files(written(tmp_path / "old", OLD))
    )
    totals.changes().by(all="1").table("whole", customers="count(*)", rows="sum(n)")
    totals.to(kf.files(tmp_path / "sink"))
    with drive(made, home=tmp_path / "home") as d:
        assert d.rows("whole") == [{"all": 1, "customers": 3, "rows": 40}]
        d.push("orders", NEW)
        assert d.rows("whole") == [{"all": 1, "customers": 3, "rows": 60}]
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "sink").glob("*.json"))
        for line in file.read_text().splitlines()
    ]
    assert {(line["customer"], line["n"]) for line in lines if line["_batch"] == 0} == {
        ("a", 14),
        ("b", 13),
        ("c", 13),
    }


def test_files_that_do_not_fit_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    live = written(tmp_path / "live", NEW, "new.json")
    made = kf.App("shop")
    orders = made.stream("orders", kf.files(live), SCHEMA, time="t")
    orders.by("customer").table("totals", n="count(*)", total="sum(amount)", initial=kf.files(tmp_path / "*"))
    written(tmp_path / "old", OLD)
    with pytest.raises(BadOption, match="reads files that initial= has too"):
        made.start(home=tmp_path / "home", spark=shared_session())
    with (
        pytest.raises(BadOption, match="initial= has no files"),
        drive(app(kf.files(tmp_path / "no")), home=tmp_path / "home"),
    ):
        pass
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.json").write_text("no row\n")
    with pytest.raises(BadOption, match=r"none of the initial rows of shop\.totals could be used"):
        drive(app(kf.files(tmp_path / "bad")), home=tmp_path / "home").__enter__()
    assert AppHome(tmp_path / "home" / "shop").table("totals").planned_batch() is None


def test_a_directory_that_is_read_without_event_time_follows_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The table that runs alone on the history has its view elsewhere than the app has its own.
    monkeypatch.setenv("KEYFOLD_LOCAL", str(tmp_path / "local"))
    live = written(tmp_path / "live", NEW)
    made = kf.App("shop")
    orders = made.stream("orders", kf.files(live), SCHEMA)
    history = kf.files(written(tmp_path / "old", OLD))
    orders.by("customer").table("totals", n="count(*)", total="sum(amount)", initial=history)
    with made.start(home=tmp_path / "home", spark=shared_session()) as handle:
        handle.drain()
        written(live, rows(60, 9), "b.json")
        handle.drain()
        found = {row["customer"]: (row["n"], row["total"]) for row in handle.table("totals").rows()}
    assert found == recount(OLD + NEW + rows(60, 9))
    assert entry(tmp_path / "home")["until"] is None
    assert (tmp_path / "local" / "shop" / "views.db").exists()


def moved(name: str, live: Path, table: str, initial: Any = None, path: str = "n", **stream: Any) -> kf.App:
    made = kf.App(name)
    orders = made.stream("orders", kf.files(live), SCHEMA, time="t", **stream)
    orders.by("customer").tumbling("10 seconds").table(table, {path: "count(*)"}, initial=initial)
    return made


def counts(handle: kf.Handle, table: str) -> dict[tuple[Any, ...], int]:
    found = handle.table(table).rows()
    return {
        (row["customer"], row["window_start"].second // 10, row["window_start"].minute): row["n"]
        for row in found
    }


def test_a_table_goes_on_with_the_state_of_a_savepoint(tmp_path: Path) -> None:
    live, home, spark = written(tmp_path / "live", OLD), tmp_path / "home", shared_session()
    with moved("old", live, "windows").start(home=home, spark=spark) as handle:
        handle.drain()
        written(live, NEW[:10], "b.json")
        handle.drain()
        then = handle.savepoint("then")["tables"]["windows"]
        # What comes after the savepoint is read again.
        written(live, NEW[10:], "c.json")
        handle.drain()
    state = kf.savepoint("then", app="old", table="windows")
    other = moved("new", live, "tens", state)
    with killing(FaultPoint.MIGRATION_RECORDED), pytest.raises(Killed):
        other.start(home=home, spark=spark)
    with other.start(home=home, spark=spark) as handle:
        handle.drain()
        wanted = Counter(
            (row["customer"], int(row["t"][17:19]) // 10, int(row["t"][14:16])) for row in OLD + NEW
        )
        assert counts(handle, "tens") == wanted
    began = AppHome(home / "new").read_plan().tables["tens"].initial
    assert began is not None
    assert (began["of"], began["batch"]) == ("old.windows", then)

    def refused(match: str, made: kf.App) -> None:
        with pytest.raises(kf.KeyfoldError, match=match):
            made.start(home=home, spark=spark)
        assert AppHome(home / "third").table("tens").planned_batch() is None

    refused("no savepoint thn of app old", moved("third", live, "tens", kf.savepoint("thn", app="old")))
    refused("has no state of tens", moved("third", live, "tens", kf.savepoint("then", app="old")))
    refused("another definition", moved("third", live, "tens", state, path="other"))
    refused("has another source", moved("third", written(tmp_path / "else", NEW), "tens", state))
    refused("log of its own here", moved("third", live, "tens", state, shared=True))

    # Its files are copied, and its view is not.
    def deleted(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.STORAGE_NAMED and str(facts["name"]).endswith("metadata"):
            with unfinished.held_or_running(AppHome(home / "old")) as held:
                Deletion(AppHome(home / "old"), None, held).delete("then")

    with handled_by(deleted):
        refused("was deleted or changed while it was read", moved("third", live, "tens", state))
