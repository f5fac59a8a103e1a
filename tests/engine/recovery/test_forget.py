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
from keyfold.engine.savepoint import rescale, unfinished
from keyfold.engine.savepoint.forget import forget
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive, shared_session
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
    place = AppHome(tmp_path / "shop")
    with drive(app(), home=tmp_path) as d:
        fill(d)
    # A batch that neither the log nor the view has.
    rescale.rescale(shared_session(), place, "people", 3, None, lambda _: None)
    assert main(["savepoint", "create", "then", "--home", str(tmp_path)]) == 0
    # The source of a test is files in the home.
    stays = {name for name in traces(tmp_path, "ada-l") if name.startswith("shop/feeds/")}
    assert set(traces(tmp_path, "ada-l")) > stays

    def erase(table: str) -> dict[str, Any]:
        return forget(shared_session(), place, table, ["ada-l"], "a request", lambda _: None)

    def killed_at(wanted: FaultPoint) -> None:
        def handle(point: FaultPoint, facts: dict[str, Any]) -> None:
            _raise(point == wanted)

        with handled_by(handle), pytest.raises(Killed):
            erase("people")

    with pytest.raises(BadOption, match="has this key; nothing was changed"):
        forget(shared_session(), place, "people", ["nobody"], None, lambda _: None)
    before = set(traces(tmp_path, "ada-l"))
    killed_at(FaultPoint.FORGET_STAGED)
    assert {name for name in traces(tmp_path, "ada-l") if "forgetting/" not in name} == before
    killed_at(FaultPoint.FORGET_RECORDED)
    with (
        handled_by(lambda point, _: _raise(point == FaultPoint.FORGET_SWITCHED)),
        pytest.raises(Killed),
    ):
        unfinished.finish(place)
    receipt = erase("windows")
    assert receipt["home"]["state_rows"] > 0
    assert receipt["savepoints"]["then"]["state_rows"] > 0
    assert any("may have it too: people; forget it there" in note for note in receipt["notes"])
    people = place.storage.list("receipts")
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
    assert main(["receipt", str(file), "--home", str(tmp_path)]) == 0
    file.write_text(json.dumps({**receipt, "why": "none"}))
    assert main(["receipt", str(file), "--home", str(tmp_path)]) == 1
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
    place = AppHome(tmp_path / "shop")
    assert late_replay.replay(place.table("windows"), 3_600_000, None) == late_replay.Replayed(sent=2)
    receipt = forget(shared_session(), place, "windows", ["ada-l"], None, lambda _: None)
    assert receipt["home"]["replayed_rows"] == 1
    with drive(made, home=tmp_path) as d:
        found = {(row["person"], row["window_start"].isoformat(), row["n"]) for row in d.rows("windows")}
        # No row has arrived since, but the stream has been recorded as far as before.
        assert d.handle.status()["streams"]["rows"]["batch"] == recorded
    assert found == {("bob-m", at(0), 2), ("bob-m", at(30), 1), ("bob-m", at(50), 1)}
    assert not {name for name in traces(tmp_path, "ada-l") if not name.startswith("shop/feeds/")}
