"""A savepoint of an app that was killed at any point of a batch: every operation on it works."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import compiled_plan
from keyfold.engine import session
from keyfold.engine.erasure.forget import forget
from keyfold.engine.recovery import verification
from keyfold.engine.savepoint import archive, clone, create, deletion, restore, verify
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.state.diff import differences
from keyfold.engine.state_reading import state_of
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption, QueryError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.settings import load
from keyfold.testing import shared_session
from tests.conftest import LONG
from tests.engine.recovery.test_forget import traces

pytestmark = pytest.mark.jvm

POINTS = (
    FaultPoint.BATCH_BEGUN,
    FaultPoint.PARTS_WRITTEN,
    FaultPoint.BATCH_PUBLISHED,
    FaultPoint.VIEW_WRITTEN,
    FaultPoint.VIEW_COMMITTED,
    FaultPoint.BATCH_DONE,
)
ALL = [(batch, point) for batch in (0, 1) for point in POINTS]
SOME = [(0, FaultPoint.VIEW_COMMITTED), (1, FaultPoint.PARTS_WRITTEN), (1, FaultPoint.BATCH_DONE)]
ROWS = (
    [("ada-l", 1), ("bob-m", 1), ("ada-l", 4)],
    [("ada-l", 2), ("cyd-n", 3), ("bob-m", 5)],
    [("ada-l", 5), ("bob-m", 7), ("dee-o", 2)],
)
"""The rows of each file, which is a batch."""


def app(data: Path, name: str = "c2") -> kf.App:
    made = kf.App(name)
    schema = "k string, x int"
    rows = made.stream("rows", kf.files(data, maxFilesPerTrigger=1), schema=schema, shared=False)
    rows.by("k").table("totals", n="count(*)", total="sum(x)", history="1 day")
    rows.by("k").top(1, by="x desc").table("best", x="x")
    return made


def begun(data: Path) -> kf.App:
    """Another app, whose table begins with the state in a savepoint of the first."""
    made = kf.App("begun")
    rows = made.stream("rows", kf.files(data, maxFilesPerTrigger=1), schema="k string, x int", shared=False)
    state = kf.savepoint("then", app="c2")
    rows.by("k").table("totals", n="count(*)", total="sum(x)", history="1 day", initial=state)
    return made


def write(data: Path, number: int) -> None:
    data.mkdir(exist_ok=True)
    lines = [json.dumps({"k": k, "x": x}) for k, x in ROWS[number]]
    (data / f"{number}.json").write_text("\n".join(lines) + "\n")


def run(made: kf.App, home: Path) -> dict[str, tuple[int, int]]:
    """What the table has after a start that reads all input; its view is what its state says."""
    with made.start(home=home, spark=shared_session()) as handle:
        handle.drain()
    app_home, spark = AppHome(home / made.name), session.users_session(shared_session(), load())
    with (
        tempfile.TemporaryDirectory() as feeds,
        app_home.views.open(read_only=True) as view,
    ):
        for one in compiled_plan(spark, made.spec(), app_home, Path(feeds)).tables:
            found = verification.verify(spark, one, app_home, view)
            assert found.compared, found
            assert found.equal, found
    with app_home.views.open(read_only=True) as store:
        return {row["k"]: (row["n"], row["total"]) for row in store.scan("totals")}


def folded(first: int, upto: int, without: str | None = None, before: int = 0) -> dict[str, tuple[int, int]]:
    """The rows of files, and those of files `before` the first one without a key."""
    rows = [row for file in ROWS[:before] for row in file if row[0] != without]
    rows += [row for file in ROWS[first:upto] for row in file]
    n, total = Counter(k for k, _ in rows), Counter[str]()
    for k, x in rows:
        total[k] += x
    return {k: (n[k], total[k]) for k in n}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, FaultPoint], Path]:
    """What a kill at each point leaves in a home: a copy of it, of one run."""
    top = tmp_path_factory.mktemp("unfinished")
    home, data, found = top / "home", top / "data", {}
    tables = ("totals", "best")
    passed = {(table, *at): threading.Event() for table in tables for at in ALL}

    def wait(table: str, batch: int, point: FaultPoint) -> None:
        assert passed[table, batch, point].wait(60)

    def keep(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point not in POINTS:
            return
        table, batch = facts["table"], facts["batch"]
        if table == "totals":
            if point == FaultPoint.BATCH_BEGUN:
                wait("best", batch, point)
            if point == FaultPoint.BATCH_DONE:
                wait(table, batch, FaultPoint.VIEW_COMMITTED)
            copied(batch, point)
        passed[table, batch, point].set()
        if table == "best" and point == FaultPoint.BATCH_BEGUN:
            # So that nothing but the batch of the other table writes state or logs while they are copied.
            wait("totals", batch, FaultPoint.BATCH_DONE)

    def copied(batch: int, point: FaultPoint) -> None:
        found[batch, point] = top / f"{batch} {point}"
        # By another process: closing files here would release locks of SQLite. It may fail to copy temporary
        # files of the lease and the status, which are written meanwhile.
        subprocess.run(["cp", "-r", home, found[batch, point]], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(found[batch, point] / "c2" / "lease")

    for number in (0, 1):
        write(data, number)
        with handled_by(keep), app(data).start(home=home, spark=shared_session()) as handle:
            handle.drain()
    return found


@pytest.fixture
def home(killed: dict[tuple[int, FaultPoint], Path], request: pytest.FixtureRequest) -> Path:
    """The home that was killed at a point, where it was, and the input by then."""
    batch, point = request.param
    found = killed[batch, point]
    home, data = found.parent / "home", found.parent / "data"
    shutil.rmtree(home)
    shutil.rmtree(data)
    for number in range(batch + 1):
        write(data, number)
    shutil.copytree(found, home)
    return home


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("home", "at"), [(at, at) for at in (ALL if LONG else SOME)], indirect=["home"])
def test_every_operation_works_on_a_savepoint_after_a_kill(
    home: Path, at: tuple[int, FaultPoint], tmp_path: Path
) -> None:
    batch = at[0]
    app_home, data, spark = AppHome(home / "c2"), home.parent / "data", shared_session()
    assert (app_home.table("totals").planned_batch(), app_home.table("totals").committed_batch()) == (
        batch,
        batch - 1 if batch else None,
    )
    create.create(app_home, "then", spark=spark)
    archive.export(app_home, "then", tmp_path / "file", silent)
    archive.put(tmp_path / "file", app_home, "again", silent)
    if batch:
        rows = state_of(app_home, "totals", savepoint="then").rows(spark).frame.collect()
        assert {row["k"] for row in rows} == {"ada-l", "bob-m"}

    # As they are.
    clone.clone(app_home, "then", AppHome(home / "green"), silent)
    assert run(app(data, "green"), home) == folded(0, batch + 1)
    if batch:
        assert run(begun(data), home) == folded(0, batch + 1)
    else:
        with pytest.raises(QueryError, match="savepoint then of c2 has no state of totals"):
            run(begun(data), home)
    restore.restore(app_home, "again", (), None, silent)

    # The home itself is brought up first.
    def erase(table: str = "totals") -> dict[str, Any]:
        return forget(spark, app_home, table, ["ada-l"], None, lambda _: None)

    with pytest.raises(BadOption, match=rf"batch {batch} of c2\.totals is not finished"):
        erase()
    assert run(app(data), home) == folded(0, batch + 1)
    if batch:
        before, now = state_of(app_home, "totals", savepoint="then"), state_of(app_home, "totals")
        changed = {one.key["k"]: one.change for one in differences(spark, before, now, None, None)}
        assert changed == {"ada-l": "changed", "bob-m": "changed", "cyd-n": "added"}
    receipt = erase()
    erase("best")
    assert set(receipt["savepoints"]) == set(Savepoints(app_home).names()) >= {"then", "again"}
    for name in Savepoints(app_home).names():
        verify.require_whole(Savepoints(app_home).find(name), Savepoints(app_home).storage(name), silent)
    assert list(traces(home / "c2", "ada-l")) == []

    # What was not committed is read again, and new input after it.
    write(data, batch + 1)
    clone.clone(app_home, "again", AppHome(home / "blue"), silent)
    wanted = folded(batch, batch + 2, without="ada-l", before=batch)
    assert run(app(data, "blue"), home) == wanted
    restore.restore(app_home, "then", (), None, silent)
    assert run(app(data), home) == wanted
    deletion.Deletion(app_home, None, held=True).delete("again")
    pruned = deletion.Deletion(app_home, None, held=True).prune(1, None)
    assert "then" in {one.name for one in pruned}
    assert len(Savepoints(app_home).names()) == 1
