"""A kill at any step of a command that rewrites state leaves the old state, or is finished to the new."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.app.plan import compiled_plan
from keyfold.cli.commands.state import state_put
from keyfold.engine import session
from keyfold.engine.erasure import forget
from keyfold.engine.migration.migrate import Migrated, migrate
from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import FORGET, KINDS, MIGRATE, RESCALE, RESTORE, REWRITE
from keyfold.engine.operations.operation import Operation
from keyfold.engine.rescale import rescale
from keyfold.engine.savepoint import create, restore
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.state_reading import state_of
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import surgery as key_surgery
from keyfold.errors import HomeUnusable
from keyfold.fault_points import FaultPoint
from keyfold.settings import load
from keyfold.testing import drive, shared_session
from keyfold.views.stores import views_in
from tests.engine.recovery.kills import Killed, steps

pytestmark = pytest.mark.jvm

Act = Callable[[Path], Any]


def app(*, new: bool = False) -> kf.App:
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), "k string, x int")
    if new:
        rows.by("k").table("sums", total="sum(x)", n="count(*)", most="max(x)", was="totals")
    else:
        rows.by("k").table("totals", n="count(*)", total="sum(x)")
    return made


def rescaled(home: Path) -> None:
    rescale.rescale(shared_session(), AppHome(home / "shop"), "totals", 3, None, lambda _: None)


def deleted(home: Path) -> None:
    given = (shared_session(), AppHome(home / "shop"), "totals", ["a"], None, lambda _: None, silent)
    with key_surgery.begin(*given) as surgery:
        key_surgery.delete(surgery)


def put(home: Path) -> None:
    spark, app_home = session.users_session(shared_session(), load()), AppHome(home / "shop")
    compiled = state_put._compile_table(spark, app().spec(), "totals", app_home)
    given = (spark, app_home, "totals", ["a"], None, lambda _: None, silent)
    with key_surgery.begin(*given) as surgery:
        key_surgery.put(surgery, compiled, {"n_count": "7"})


def migrated(home: Path) -> None:
    spark, app_home = session.users_session(shared_session(), load()), AppHome(home / "shop")
    with tempfile.TemporaryDirectory() as feeds:
        plan = compiled_plan(spark, app(new=True).spec(), app_home, Path(feeds))
        wanted = [Migrated(plan.tables[0], change) for change in plan.changes if change.kind == "migratable"]
        migrate(spark, app_home, wanted, None, lambda _: None)


def forgotten(home: Path) -> None:
    forget.forget(shared_session(), AppHome(home / "shop"), "totals", ["a"], None, lambda _: None)


def restored(home: Path) -> None:
    restore.restore(AppHome(home / "shop"), "then", (), None, silent)


COMMANDS: dict[str, tuple[Act, FaultPoint, FaultPoint]] = {
    "rescale": (rescaled, FaultPoint.RESCALE_READY, FaultPoint.RESCALE_RECORDED),
    "state delete": (deleted, FaultPoint.REWRITE_READY, FaultPoint.REWRITE_RECORDED),
    "state put": (put, FaultPoint.REWRITE_READY, FaultPoint.REWRITE_RECORDED),
    "migrate": (migrated, FaultPoint.MIGRATION_READY, FaultPoint.MIGRATION_RECORDED),
    "forget": (forgotten, FaultPoint.FORGET_STAGED, FaultPoint.FORGET_RECORDED),
}


def files(home: Path) -> dict[str, bytes]:
    """All files of the app byte by byte, and views by their rows; without the lease and savepoints."""
    top = home / "shop"
    found = {}
    for path in top.rglob("*"):
        name = str(path.relative_to(top))
        if path.is_file() and not name.startswith(("lease/", "feeds/", "savepoints/", "views.db")):
            found[name] = path.read_bytes()
    store = views_in(top / "views.db").open(read_only=True)
    try:
        for table in store.tables():
            found[f"view {table}"] = repr(
                (store.position(table), sorted(map(repr, store.scan(table))))
            ).encode()
    finally:
        store.close()
    return found


def of_state(home: Path) -> dict[str, list[str]]:
    """The rows of each table's state, as Spark reads them."""
    app_home = AppHome(home / "shop")
    return {
        table: sorted(map(str, state_of(app_home, table).rows(shared_session()).frame.collect()))
        for table in app_home.storage.list("tables")
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that all commands begin with; none of them is carried out in it."""
    home = tmp_path_factory.mktemp("kills") / "home"
    with drive(app(), home=home) as d:
        d.push("rows", [{"k": k, "x": 1} for k in "abc"])
        d.push("rows", [{"k": k, "x": 2} for k in "ab"])
    return home


def killed(home: Path, at: Path, act: Act, last: int | None = None, point: FaultPoint | None = None) -> Path:
    """A copy of a home after a command that was killed in it; state has its path, which stays the same."""
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(home, at)
    with pytest.raises(Killed), steps(last, point):
        act(at)
    return at


def finished(home: Path) -> None:
    with unfinished.held(AppHome(home / "shop")):
        pass


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_step_leaves_the_old_state_or_the_new_one(
    made: Path, tmp_path: Path, name: str
) -> None:
    act, ready, recorded = COMMANDS[name]
    home = tmp_path / "home"

    # Before the switch is recorded: nothing has changed but the savepoint to go back to.
    old = _relocated(made, home)
    states = of_state(home)
    for last, point in ((2, None), (None, ready)):
        killed(made, home, act, last, point)
        finished(home)
        assert _unaudited(files(home)) == _unaudited(old)
    # The last of these homes: the command is run again, as if nothing had been.
    act(home)
    again = of_state(home)
    assert again != states or name == "rescale"

    # From then on it is finished, whatever it was killed in the middle of, to the same bytes.
    after = tmp_path / "recorded"
    shutil.copytree(killed(made, home, act, point=recorded), after)
    with steps() as counted:
        finished(home)
    new = files(home)
    assert of_state(home) == again
    assert not [path for path in (home / "shop").iterdir() if path.name.endswith("ing.json")]
    for last in counted.turns():
        killed(after, home, finished, last)
        finished(home)
        assert files(home) == new, f"after step {last}, {counted.kinds[last]}"
    assert of_state(home) == again


REPLACING = [kind for kind in KINDS if isinstance(kind, Operation) and kind.prepared is not None]
RECORDED = {
    RESCALE: (rescaled, "rescale", FaultPoint.RESCALE_RECORDED),
    REWRITE: (deleted, "state delete", FaultPoint.REWRITE_RECORDED),
    MIGRATE: (migrated, "migrate", FaultPoint.MIGRATION_RECORDED),
    FORGET: (forgotten, "forget", FaultPoint.FORGET_RECORDED),
    RESTORE: (restored, "restore", FaultPoint.RESTORE_RECORDED),
}
"""By each kind of operation that replaces files: a command that is killed when it has recorded it."""


@pytest.mark.parametrize("kind", REPLACING, ids=lambda kind: kind.name)
def test_a_command_whose_prepared_files_are_missing_is_not_finished(
    made: Path, tmp_path: Path, kind: Operation
) -> None:
    act, what, recorded = RECORDED[kind]
    home = tmp_path / "home"
    shutil.copytree(made, home)
    create.create(AppHome(home / "shop"), "then")
    saved = tmp_path / "saved"
    shutil.copytree(home, saved)
    killed(saved, home, act, point=recorded)
    prepared = json.loads((home / "shop" / kind.record).read_bytes())["prepared"]
    kept = tmp_path / "kept"
    shutil.copytree(home, kept)

    def without(names: list[str]) -> Path:
        for name in names:
            (home / "shop" / prepared["directory"] / name).unlink()
        return home

    def refused(by: Callable[[], object]) -> HomeUnusable:
        before = _durable(files(home))
        with pytest.raises(HomeUnusable, match=f"the {what} of shop .* can't be finished") as error:
            by()
        assert _durable(files(home)) == before
        assert f"{home}/shop/{prepared['directory']}" in error.value.what
        return error.value

    for names in (prepared["files"][-1:], prepared["files"]):
        shutil.rmtree(home)
        shutil.copytree(kept, home)
        without(names)
        error = refused(lambda: finished(home))
        assert error.given is not None
        assert error.given.startswith(names[0])
        assert f"delete {home}/shop/{kind.record}" in str(error.hint)
    refused(lambda: drive(app(), home=home).__enter__())

    # Withdrawn, as the error says.
    (home / "shop" / kind.record).unlink()
    finished(home)
    assert _durable(_unaudited(files(home))) == _durable(_unaudited(files(saved)))
    assert what not in [one["what"] for one in audit.entries(AppHome(home / "shop").storage)]

    # Not once files have been replaced.
    killed(kept, home, finished, last=2)
    without(prepared["files"][-1:])
    assert "delete" not in str(refused(lambda: finished(home)).hint)


def _relocated(made: Path, home: Path) -> dict[str, bytes]:
    shutil.copytree(made, home)
    return files(home)


def _durable(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without the status, in which a start says why it failed."""
    return {name: content for name, content in found.items() if name != "status.json"}


def _unaudited(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without the lines about savepoints, and the key that signs receipts, which is made once for a home."""
    return {
        name: content for name, content in found.items() if not name.startswith(("audit", "receipts/key"))
    }
