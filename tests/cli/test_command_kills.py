"""A kill at any step of a command leaves the home as it was or as it should be, and it can be run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from keyfold.engine.operations import removal as table_removal
from keyfold.engine.operations import unfinished
from keyfold.engine.recovery import view_rebuilding
from keyfold.engine.savepoint import archive, clone, create, restore, verify
from keyfold.engine.savepoint.capture import Capture, silent
from keyfold.engine.savepoint.deletion import Deletion
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import KeyfoldError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.views.contract import ViewStore
from tests.cli.conftest import AT, Cli
from tests.cli.test_removal import left, shop_in
from tests.cli.test_savepoint import change, contents, with_ids
from tests.cli.test_savepoint_deletion import running
from tests.engine.recovery.kills import Killed, steps

Act = Callable[[Path], Any]


def shop(home: Path) -> AppHome:
    return AppHome(home / "shop")


def prepared(home: Path) -> None:
    """An app with two savepoints, one of which is also in a file, and a run since."""
    app_home = shop_in(home)
    with_ids(app_home)
    create.create(app_home, "first")
    create.create(app_home, "second")
    archive.export(app_home, "second", home / "exported", silent)
    change(app_home)


def reset(home: Path) -> None:
    with unfinished.held(shop(home)):
        table_removal.remove(shop(home), "reset", ["kinds"])


def delete(home: Path, name: str = "first") -> None:
    with unfinished.held_or_running(shop(home)) as held:
        Deletion(shop(home), None, held).delete(name)


def prune(home: Path) -> None:
    with unfinished.held_or_running(shop(home)) as held:
        Deletion(shop(home), None, held).prune(1, timedelta(0))


def put(home: Path) -> None:
    with unfinished.held_or_running(shop(home)) as held:
        archive.put(home / "exported", shop(home), "third", silent, held=held)


def rebuild_views(home: Path) -> None:
    """As `keyfold verify --repair` and `keyfold rebuild --view` do, with rows that differ."""
    app_home = shop(home)
    with (
        unfinished.held(app_home),
        app_home.views.open(read_only=False) as store,
        view_rebuilding.audit_rebuild(app_home, store, "rebuild", None, {"totals": 1}),
    ):
        rebuild_view(store, "totals")


def rebuild_view(store: ViewStore, table: str) -> None:
    schema = store.schema(table)
    nothing = pa.RecordBatch.from_pylist([], schema=schema.arrow)
    store.rebuild(table, schema, [nothing], 1, AT)


def export(home: Path) -> None:
    archive.export(shop(home), "first", home / "another", silent)


COMMANDS: dict[str, Act] = {
    "create": lambda home: create.create(shop(home), "third"),
    "restore": lambda home: restore.restore(shop(home), "first", (), None, silent),
    "restore of tables": lambda home: restore.restore(
        shop(home), "first", ("totals", "pairs", "kinds"), None, silent
    ),
    "clone": lambda home: clone.clone(shop(home), "first", local_app_home(home, "green"), silent),
    "delete": delete,
    "prune": prune,
    "export": export,
    "import": put,
    "reset": reset,
    "rebuild views": rebuild_views,
}


def seen(home: Path) -> dict[str, Any]:
    """All that people would notice; without the savepoints that a restore makes, and names by the time."""
    found: dict[str, Any] = {}
    for app in ("shop", "green"):
        app_home = AppHome(home / app)
        if app_home.storage.list() and "app.json" in app_home.storage.list():
            files = {name: text for name, text in contents(app_home).items() if "metadata" not in name}
            views = left(app_home) if app_home.views.exists() else None
            found[app] = (files, views)
    savepoints = Savepoints(shop(home))
    known = [name for name in savepoints.names() if "before-restore" not in name]
    found["savepoints"] = {name: savepoints.find(name).files for name in known}
    found["exported"] = [
        archive.read(home / name).files for name in ("exported", "another") if (home / name).exists()
    ]
    found["audit"] = [line["what"] for line in audit.entries(shop(home).storage) if not _undo(line)]
    assert not audit.breaks(shop(home).storage)
    return found


def _undo(line: dict[str, Any]) -> bool:
    return "before-restore" in str(line.get("savepoint"))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_step_leaves_old_or_new_and_the_command_can_be_run_again(
    tmp_path: Path, name: str
) -> None:
    act = COMMANDS[name]
    (shop_in if name == "rebuild views" else prepared)(tmp_path / "home")
    old = seen(tmp_path / "home")
    shutil.copytree(tmp_path / "home", tmp_path / "done")
    with steps() as counted:
        act(tmp_path / "done")
    new = seen(tmp_path / "done")
    assert new != old
    finished = 0
    for last in counted.turns():
        home = tmp_path / "killed"
        shutil.copytree(tmp_path / "home", home)
        with pytest.raises(Killed), steps(last):
            act(home)
        for app in ("shop", "green"):
            if (home / app).exists():
                with unfinished.held(AppHome(home / app)):
                    pass
        found = seen(home)
        assert found in (old, new), f"after step {last}, {counted.kinds[last]}"
        finished += found == new
        if found == old:
            act(home)
            assert seen(home) == new, f"run again after step {last}"
        shutil.rmtree(home)
    assert finished < len(counted.turns()), "a kill before the first step changes nothing"


def test_a_savepoint_that_an_interrupted_restore_needs_is_not_deleted_before_it_is_finished(
    tmp_path: Path,
) -> None:
    home, app_home = tmp_path / "home", shop(tmp_path / "home")
    prepared(home)
    shutil.copytree(home, tmp_path / "other")
    with steps() as counted:
        restore.restore(shop(tmp_path / "other"), "first", (), None, silent)
    with pytest.raises(Killed), steps(counted.taken - 5):
        restore.restore(app_home, "first", (), None, silent)
    assert (app_home.path / "restoring.json").exists()
    delete(home)
    assert contents(app_home) == contents(shop(tmp_path / "other"))
    assert "first" not in Savepoints(app_home).names()


def test_one_look_says_whether_anything_is_left_to_do_however_many_tables_there_are(tmp_path: Path) -> None:
    prepared(tmp_path)
    asked = []
    for tables in (3, 40):
        for number in range(tables):
            (shop(tmp_path).path / "tables" / f"t{number}" / "checkpoint").mkdir(parents=True, exist_ok=True)
        with patch.object(LocalStorage, "list", autospec=True, side_effect=LocalStorage.list) as listing:
            unfinished.finish(shop(tmp_path))
        asked.append([call.args[1:] for call in listing.call_args_list])
    assert asked[0] == asked[1] == [(), ("tables",)]


def test_a_table_is_not_reset_beneath_an_interrupted_restore(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    prepared(home)
    shutil.copytree(home, other)
    with steps() as counted:
        restore.restore(shop(other), "first", (), None, silent)
    with pytest.raises(Killed), steps(counted.taken - 5):
        restore.restore(shop(home), "first", (), None, silent)
    reset(home)
    reset(other)
    assert left(shop(home)) == left(shop(other))
    with unfinished.held(shop(home)):
        pass
    assert left(shop(home)) == left(shop(other))


def test_an_import_is_in_the_audit_log_with_who_did_it_and_why(tmp_path: Path, cli: Cli) -> None:
    prepared(tmp_path)
    words = ("savepoint", "import", tmp_path / "exported", "--home", tmp_path)
    assert cli(*words, "--name", "third", "--why", "to look at it").code == 0
    assert cli(*words).code == 2, "the name is taken"
    line = audit.entries(shop(tmp_path).storage)[-1]
    assert (line["what"], line["savepoint"], line["why"], line["user"]) == (
        "savepoint import",
        "third",
        "to look at it",
        audit.user(),
    )
    assert line["batches"] == {"kinds": 1, "pairs": 1, "totals": 1}
    assert not shop(tmp_path).storage.list("importing")


def test_a_kill_of_an_import_beside_a_running_app_leaves_a_line_if_and_only_if_the_savepoint_exists(
    tmp_path: Path,
) -> None:
    prepared(tmp_path / "home")
    shutil.copytree(tmp_path / "home", tmp_path / "done")
    with steps() as counted, running(shop(tmp_path / "done")):
        put(tmp_path / "done")
    existed = set()
    for last in counted.turns():
        home = tmp_path / "killed"
        shutil.copytree(tmp_path / "home", home)
        with running(shop(home)), pytest.raises(Killed), steps(last):
            put(home)
        exists = "third" in Savepoints(shop(home)).names()
        if exists and last % 2:
            with running(shop(home)):
                delete(home, "third")
        with unfinished.held(shop(home)):
            pass
        whats = [one["what"] for one in audit.entries(shop(home).storage)]
        assert whats.count("savepoint import") == exists, f"after step {last}, {counted.kinds[last]}"
        assert not audit.breaks(shop(home).storage)
        put(home) if "third" not in Savepoints(shop(home)).names() else None
        assert not shop(home).storage.list("importing")
        existed.add(exists)
        shutil.rmtree(home)
    assert existed == {False, True}


def test_an_import_that_goes_on_while_the_home_changes_hands_is_in_the_audit_log_once(tmp_path: Path) -> None:
    prepared(tmp_path)
    home = shop(tmp_path)

    def meanwhile(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.STORAGE_NAMED and facts["name"] == "importing/third.json":
            unfinished.finish(home)  # the savepoint does not exist yet
        if point == FaultPoint.SAVEPOINT_ADDED:
            unfinished.finish(home)

    with handled_by(meanwhile):
        archive.put(tmp_path / "exported", home, "third", silent, held=False)
    unfinished.finish(home)
    assert [one["what"] for one in audit.entries(home.storage)].count("savepoint import") == 1
    assert not audit.breaks(home.storage)


def test_of_several_views_the_audit_log_has_those_that_were_rebuilt(tmp_path: Path) -> None:
    home = shop_in(tmp_path)

    def interrupted() -> None:
        with (
            home.views.open(read_only=False) as store,
            view_rebuilding.audit_rebuild(home, store, "verify --repair", "why", {"totals": 1, "pairs": 1}),
        ):
            rebuild_view(store, "pairs")
            raise OSError("no space")

    with unfinished.held(home), pytest.raises(OSError, match="no space"):
        interrupted()
    line = audit.entries(home.storage)[-1]
    assert (line["what"], line["views"], line["batches"], line["why"]) == (
        "verify --repair",
        ["pairs"],
        {"pairs": 1},
        "why",
    )
    assert not (home.path / "rebuilding.json").exists()


def test_an_import_goes_on_while_another_savepoint_is_made(tmp_path: Path) -> None:
    """Beside a running app nobody waits for the other: what is in the making is nobody else's to remove."""
    prepared(tmp_path)
    home = shop(tmp_path)
    begun = []

    def meanwhile(what: str, done: int, of: int) -> None:
        if not begun:
            begun.append(what)
            capture = Capture(home, "beside", live=True, why=None, progress=silent)
            capture.take_table("totals")
            capture.take_plan()
            capture.complete(False)

    archive.put(tmp_path / "exported", home, "third", meanwhile)
    assert begun
    for name in ("third", "beside"):
        found = Savepoints(home).find(name)
        verify.require_whole(found, Savepoints(home).storage(name), silent)
    with pytest.raises(KeyfoldError, match="has a savepoint third"):
        archive.put(tmp_path / "exported", home, "third", silent)
