"""An app whose views are in another store than usual: it and every command find them there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.erasure.forget import forget
from keyfold.engine.recovery import verification, view_rebuild, view_rebuilding
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint import clone
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.testing import Driver, drive, shared_session
from keyfold.views import stores
from keyfold.views.contract import Location, Views
from keyfold.views.postgresql.database import PostgresViews
from keyfold.views.stores import COPY, views_in
from tests.engine.recovery.test_migrate import migrated, planned
from tests.engine.recovery.test_resize import at
from tests.views.memory_store import MemoryViews

pytestmark = pytest.mark.jvm
STORES = ("memory", "postgresql")


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of all apps of a test: nothing else can be opened."""

    def database(location: Location) -> Views:
        return PostgresViews(replace(location, address=request.getfixturevalue("postgres").address()))

    found = MemoryViews if request.param == "memory" else database
    monkeypatch.setitem(stores.STORES, stores.LOCAL, found)


def app(name: str = "shop", **more: Any) -> kf.App:
    made = kf.App(name)
    schema = "person string, x int, t timestamp"
    rows = made.stream("rows", kf.rows([]), schema, time="t", late="0 seconds")
    people = rows.by("person").table("people", n="count(*)", total="sum(x)", **more)
    people.changes().by("n").table("sizes", people="count(*)")
    rows.by("person").tumbling("10 seconds").table("windows", n="count(*)")
    return made


def push(d: Driver, *rows: tuple[str, int]) -> None:
    for person, second in rows:
        d.push("rows", [{"person": person, "x": 1, "t": at(second)}])


def people(home: Path) -> dict[str, Any]:
    return {row["person"]: row["n"] for row in kf.read_table("shop.people", home=home).rows()}


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("store")
def test_an_app_and_its_commands_find_the_views(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, spark = AppHome(tmp_path / "shop"), shared_session()
    command = ["--home", str(tmp_path)]
    with drive(app(), home=tmp_path) as d:
        push(d, ("ada", 1), ("bob", 2), ("ada", 3), ("cyd", 31))
        assert people(tmp_path) == {"ada": 2, "bob": 1, "cyd": 1}
    assert main(["savepoint", "create", "then", *command]) == 0
    with views_in(home.path / "savepoints" / "then" / COPY).open(read_only=True) as copy:
        assert copy.tables() == ("people", "sizes", "windows")
        assert {row["person"]: row["_batch"] for row in copy.scan("people")} == {"ada": 2, "bob": 1, "cyd": 3}

    with drive(app(), home=tmp_path) as d:
        push(d, ("ada", 32))
        assert len(d.rows("windows")) == 4
    receipt = forget(spark, home, "people", ["ada"], None, lambda _: None)
    assert (receipt["home"]["view_rows"], receipt["savepoints"]["then"]["view_rows"]) == (1, 1)
    assert people(tmp_path) == {"bob": 1, "cyd": 1}
    with views_in(home.path / "savepoints" / "then" / COPY).open(read_only=True) as copy:
        assert {row["person"] for row in copy.scan("people")} == {"bob", "cyd"}

    rescale.rescale(spark, home, "people", 3, None, lambda _: None)
    with drive(app(), home=tmp_path) as d:
        push(d, ("cyd", 33))
        assert people(tmp_path) == {"bob": 1, "cyd": 2}
    migrated(planned(app(top="max(x)"), tmp_path, tmp_path / "feeds"))
    assert [row["top"] for row in kf.read_table("shop.people", home=tmp_path).rows()] == [None, None]
    with drive(app(top="max(x)"), home=tmp_path) as d:
        push(d, ("bob", 34))
        assert people(tmp_path) == {"bob": 2, "cyd": 2}

    plan = planned(app(top="max(x)"), tmp_path, tmp_path / "more")
    table = next(one for one in plan.tables if one.spec.name == "people")
    with home.views.open(read_only=False) as views:
        assert verification.verify(spark, table, home, views).equal
        position = views.position("people")
        assert position is not None
        views.erase("people", verification.Compare(table.view.keys[0], "=", "bob"), position.batch)
        found = verification.verify(spark, table, home, views)
        assert [(one.key, one.problem) for one in found.state] == [({"person": "bob"}, "is missing")]
        with view_rebuilding.audit_rebuild(home, views, "rebuild", None, {"people": found.batch}):
            view_rebuild.rebuild(spark, views, table, home, found.batch)
        assert verification.verify(spark, table, home, views).equal

    assert main(["reset", "shop.windows", "--yes", *command]) == 0
    with home.views.open(read_only=True) as views:
        assert views.tables() == ("people", "sizes")
    assert main(["savepoint", "restore", "then", "--yes", *command]) == 0
    assert people(tmp_path) == {"bob": 1, "cyd": 1}
    with drive(app(), home=tmp_path) as d:
        push(d, ("bob", 40))
        assert people(tmp_path) == {"ada": 1, "bob": 3, "cyd": 2}, "the input since then is read again"

    other = local_app_home(tmp_path, "bank")
    clone.clone(home, "then", other, silent)
    assert other.views.exists()
    assert {row["person"] for row in kf.read_table("bank.people", home=tmp_path).rows()} == {"bob", "cyd"}
    capsys.readouterr()
    assert main(["get", "bank.people", "cyd", "--json", *command]) == 0
    files = {path for path in tmp_path.rglob("views.*") if "savepoints" not in path.parts}
    assert files == set(), "the views were in the store alone"
