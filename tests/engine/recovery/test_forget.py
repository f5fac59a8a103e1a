"""forget: no trace of a key is left, the others are as they were, and a kill leaves old or new."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.batch import late_replay
from keyfold.engine.erasure.forget import forget
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.operations import unfinished
from keyfold.engine.rescale import rescale
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery.key_erasure import key_of
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.read.side_outputs import read_rejected
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_migrate import migrated, planned
from tests.engine.recovery.test_resize import at

pytestmark = pytest.mark.jvm
SCHEMA = "person string, x int, t timestamp"


class Killed(BaseException):
    pass


def _raise(now: bool) -> None:
    if now:
        raise Killed


def app() -> kf.App:
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), schema=SCHEMA, time="t", late="0 seconds", history="1 day")
    people = rows.by("person").table("people", n="count(*)", total="sum(x)", history="1 day")
    people.changes().by("n").table("sizes", people="count(*)", total="sum(total)")
    once = rows.distinct("person", "x", within="1 hour")
    once.by("person").tumbling("10 seconds").table("windows", n="count(*)")
    return made


def fill(d: Driver) -> None:
    for person, second, x in (
        ("ada-l", 1, 1),
        ("bob-m", 2, 2),
        ("cyd-n", 31, 3),
        ("ada-l", 3, 4),
        ("bob-m", 4, 5),
    ):
        d.push("rows", [{"person": person, "x": x, "t": at(second)}])


def traces(home: Path, text: str) -> Iterator[str]:
    """The files that have a text, read as what they are."""
    for file in home.rglob("*"):
        if file.is_file() and "lease" not in file.parts:
            content = file.read_bytes()
            if file.suffix == ".parquet":
                content = json.dumps(pq.read_table(file).to_pylist(), default=str).encode()
            elif file.name == "views.db":
                with closing(sqlite3.connect(file)) as connection:
                    content += "\n".join(connection.iterdump()).encode()
            if text.encode() in content:
                yield str(file.relative_to(home))


def test_a_forgotten_person_is_nowhere_and_the_others_are_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = AppHome(tmp_path / "shop")
    with drive(app(), home=tmp_path) as d:
        fill(d)
    # A batch that neither the log nor the view has.
    rescale.rescale(shared_session(), home, "people", 3, None, lambda _: None)
    assert main(["savepoint", "create", "then", "--home", str(tmp_path)]) == 0
    # The source of a test is files in the home.
    stays = {name for name in traces(tmp_path, "ada-l") if name.startswith("shop/feeds/")}
    assert set(traces(tmp_path, "ada-l")) > stays

    def erase(table: str) -> dict[str, Any]:
        return forget(shared_session(), home, table, ["ada-l"], "a request", lambda _: None)

    def killed_at(wanted: FaultPoint) -> None:
        def handle(point: FaultPoint, facts: dict[str, Any]) -> None:
            _raise(point == wanted)

        with handled_by(handle), pytest.raises(Killed):
            erase("people")

    with pytest.raises(BadOption, match="has this key; nothing was changed"):
        forget(shared_session(), home, "people", ["nobody"], None, lambda _: None)
    before = set(traces(tmp_path, "ada-l"))
    killed_at(FaultPoint.FORGET_STAGED)
    assert {name for name in traces(tmp_path, "ada-l") if "forgetting/" not in name} == before
    killed_at(FaultPoint.FORGET_RECORDED)
    with (
        handled_by(lambda point, _: _raise(point == FaultPoint.FORGET_SWITCHED)),
        pytest.raises(Killed),
    ):
        unfinished.finish(home)
    receipt = erase("windows")
    assert receipt["home"]["state_rows"] > 0
    assert receipt["savepoints"]["then"]["state_rows"] > 0
    assert any("may have it too: people; forget it there" in note for note in receipt["notes"])
    people = home.storage.list("receipts")
    assert len(people) == 3
    with drive(app(), home=tmp_path) as d:
        d.push("rows", [{"person": "bob-m", "x": 6, "t": at(32)}])
        assert [tuple(row.values())[:3] for row in d.rows("people")] == [("bob-m", 3, 13), ("cyd-n", 1, 3)]
        assert [tuple(row.values())[:3] for row in d.rows("sizes")] == [(1, 1, 3), (3, 1, 13)]
        assert {row["person"] for row in d.rows("windows")} <= {"bob-m", "cyd-n"}
    # What told the table of tables of the deletion goes with a second one; a savepoint has to keep it.
    again = erase("people")
    (left,) = set(traces(tmp_path, "ada-l")) - stays
    assert left.startswith("shop/savepoints/then/files/tables/people/log/data/6-")
    assert again["savepoints"]["then"]["not_searched"]

    file = tmp_path / "receipt.json"
    file.write_text(json.dumps(receipt))
    assert main(["forget", "--check", str(file), "--home", str(tmp_path)]) == 0
    file.write_text(json.dumps({**receipt, "why": "none"}))
    assert main(["forget", "--check", str(file), "--home", str(tmp_path)]) == 1
    assert main(["audit", "verify", "--home", str(tmp_path)]) == 0
    assert main(["savepoint", "verify", "then", "--home", str(tmp_path)]) == 0
    assert main(["forget", "shop.people", "bob-m", "--home", str(tmp_path)]) == 2
    capsys.readouterr()
    assert main(["savepoint", "restore", "then", "--yes", "--home", str(tmp_path)]) == 0
    with drive(app(), home=tmp_path) as d:
        # The input since then is processed again.
        assert [tuple(row.values())[:3] for row in d.rows("people")] == [("bob-m", 3, 13), ("cyd-n", 1, 3)]
        d.push("rows", [{"person": "bob-m", "x": 7, "t": at(33)}])
        assert [tuple(row.values())[:3] for row in d.rows("sizes")] == [(1, 1, 3), (4, 1, 20)]


def test_a_late_row_that_waits_to_be_folded_is_forgotten_too(tmp_path: Path) -> None:
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), schema=SCHEMA, time="t", late="0 seconds", history="1 day")
    rows.by("person").tumbling("10 seconds").table("windows", n="count(*)", keep="1 hour")
    with drive(made, home=tmp_path) as d:
        for person, second in (("ada-l", 1), ("bob-m", 2), ("bob-m", 31), ("bob-m", 51)):
            d.push("rows", [{"person": person, "x": 1, "t": at(second)}])
        d.push("rows", [{"person": person, "x": 1, "t": at(3)} for person in ("ada-l", "bob-m")])
        recorded = d.handle.status()["streams"]["rows"]["batch"]
    home = AppHome(tmp_path / "shop")
    assert late_replay.replay(home.table("windows"), 3_600_000, None) == late_replay.Replayed(sent=2)
    receipt = forget(shared_session(), home, "windows", ["ada-l"], None, lambda _: None)
    assert receipt["home"]["replayed_rows"] == 1
    with drive(made, home=tmp_path) as d:
        found = {(row["person"], row["window_start"].isoformat(), row["n"]) for row in d.rows("windows")}
        # No row has arrived since, but the stream has been recorded as far as before.
        assert d.handle.status()["streams"]["rows"]["batch"] == recorded
    assert found == {("bob-m", at(0), 2), ("bob-m", at(30), 1), ("bob-m", at(50), 1)}
    assert not {name for name in traces(tmp_path, "ada-l") if not name.startswith("shop/feeds/")}


def visits(table: str, was: str | None = None) -> kf.App:
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), schema=SCHEMA, history="1 day")
    rows.by("person", "x").table(table, n="count(*)", history="1 day", was=was)
    return made


def test_keys_that_begin_so_are_forgotten_also_where_the_table_had_its_old_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = AppHome(tmp_path / "shop")

    def push(d: Driver) -> None:
        for person, x in (("ada-l", 1), ("bob-m", 2), ("ada-l", 2), ("ada", 3)):
            d.push("rows", [{"person": person, "x": x, "t": at(x)}])

    with drive(visits("visits"), home=tmp_path) as d:
        push(d)
    assert main(["savepoint", "create", "then", "--home", str(tmp_path)]) == 0
    new = visits("stays", was="visits")
    migrated(planned(new, tmp_path, tmp_path / "feeds"))
    assert key_of(home, "stays", ["ada-l", "1"]).names == ("person", "x"), "before the next start too"
    with drive(new, home=tmp_path) as d:
        d.push("rows", [{"person": "ada-l", "x": 9, "t": at(9)}])
    stays = {name for name in traces(tmp_path, "ada-l") if name.startswith("shop/feeds/")}
    before = set(traces(tmp_path, "ada-l"))
    counted: list[int] = []

    def declined(keys: int) -> None:
        counted.append(keys)
        raise Killed

    def erase(confirm: Any, *values: str) -> dict[str, Any]:
        return forget(shared_session(), home, "stays", values, None, lambda _: None, confirm)

    with pytest.raises(BadOption, match=r"the key of shop\.stays is person, x"):
        erase(None, "ada-l")
    with pytest.raises(BadOption, match=r"the key of shop\.stays is person, x"):
        erase(counted.append, "ada-l", "1", "2")
    with pytest.raises(Killed):
        erase(declined, "ada-l")
    assert set(traces(tmp_path, "ada-l")) == before
    assert not home.storage.list("forgetting")
    receipt = erase(counted.append, "ada-l")
    assert counted == [3, 3]
    assert (receipt["keys"], receipt["columns"], receipt["home"]["keys"]) == (3, ["person"], 3)
    assert set(traces(tmp_path, "ada-l")) == stays
    found = receipt["savepoints"]
    assert {(one["table"], one["keys"], one["view_rows"]) for one in found.values()} == {("visits", 2, 2)}
    assert len(found) == 2, "the one that the migration made too"
    with drive(new, home=tmp_path) as d:
        assert [(row["person"], row["x"], row["n"]) for row in d.rows("stays")] == [
            ("ada", 3, 1),
            ("bob-m", 2, 1),
        ]
    assert main(["savepoint", "verify", "then", "--home", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["forget", "shop.stays", "ada", "--home", str(tmp_path)]) == 2, "nobody can confirm it"
    assert main(["forget", "shop.stays", "ada", "--yes", "--json", "--home", str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert "1 key of shop.stays begins so" in told.err
    assert json.loads(told.out)["keys"] == 1
    assert main(["savepoint", "restore", "then", "--yes", "--home", str(tmp_path)]) == 0
    with drive(visits("visits"), home=tmp_path) as d:
        d.push("rows", [{"person": "bob-m", "x": 2, "t": at(9)}])
        rows = {(row["person"], row["x"]): row["n"] for row in d.rows("visits")}
    assert rows == {("bob-m", 2): 2, ("ada-l", 9): 1}, "the input since then is read again"


def test_a_short_key_erases_its_own_lines_of_csv_and_no_others(tmp_path: Path) -> None:
    lines = ["id,name,x", "1,ada,5", "2,bob,1", "1,ada,oops", "2,1,oops", "3,cyd,1,1", "4,1x,11", "5,eve"]
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "a.csv").write_text("\n".join(lines) + "\n")
    made = kf.App("shop")
    users = made.stream("users", kf.files(tmp_path / "live", format="csv"), "id int, name string, x int")
    users.by("id").table("totals", total="sum(x)")
    home, app_home = tmp_path / "home", AppHome(tmp_path / "home" / "shop")
    with made.start(home=home, spark=shared_session()) as handle:
        handle.drain()
    log = TableLog(app_home.table("totals").log_files)
    before = sorted(row.raw or "" for row in read_rejected(log))
    assert before == ["1,ada,oops", "2,1,oops", "3,cyd,1,1", "5,eve"]
    receipt = forget(shared_session(), app_home, "totals", ["1"], None, lambda _: None)
    assert receipt["home"]["log"]["rejected"] == 2
    assert receipt["home"]["found_by_word"] == 1, "a line with a value too many"
    log = TableLog(app_home.table("totals").log_files)
    assert sorted(row.raw or "" for row in read_rejected(log)) == ["2,1,oops", "5,eve"]
