"""savepoint delete and prune: audited, finished after a kill, and never under the eyes of a reader."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from keyfold.engine.operations import unfinished
from keyfold.engine.operations.kinds import CLONE, FORGET
from keyfold.engine.savepoint import archive, clone, create, verify
from keyfold.engine.savepoint.capture import Capture, silent
from keyfold.engine.savepoint.deletion import Deletion
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import NameTaken, QueryError, SavepointUnusable
from keyfold.fault_points import FaultPoint, handled_by
from tests.cli.conftest import Cli
from tests.cli.test_removal import shop_in
from tests.engine.recovery.kills import Killed, steps

GONE = "savepoint first of shop was deleted or changed while it was read"


@contextmanager
def running(home: AppHome) -> Iterator[None]:
    """As a running app holds its home."""
    lease = Lease(home).take()
    lease.holds_jvm(os.getpid())
    try:
        yield
    finally:
        lease.release()


def with_savepoint(home: Path) -> AppHome:
    app_home = shop_in(home)
    create.create(app_home, "first")
    return app_home


def delete(home: AppHome) -> None:
    with unfinished.held_or_running(home) as held:
        Deletion(home, None, held).delete("first")


def test_the_audit_log_says_who_deleted_which_savepoint_and_why(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    for name in ("a", "b", "c"):
        create.create(home, name)
    assert cli("savepoint", "delete", "b", "--why", "a mistake", "--home", tmp_path).code == 0
    assert cli("savepoint", "prune", "--keep", "1", "--why", "space", "--home", tmp_path).code == 0
    lines = cli("audit", "list", "--home", tmp_path, "--json").json[3:]
    assert [(one["what"], one["savepoint"], one["why"]) for one in lines] == [
        ("savepoint delete", "b", "a mistake"),
        ("savepoint prune", "a", "space"),
    ]
    assert {one["user"] for one in lines} == {audit.user()}
    assert lines[0]["batches"] == {"kinds": 1, "pairs": 1, "totals": 1}
    shown = cli("audit", "list", "--home", tmp_path).out.splitlines()
    assert "savepoint delete" in shown[-2]
    assert " b " in shown[-2]
    assert cli("audit", "verify", "--home", tmp_path, "--json").json == {
        "entries": 5,
        "whole": True,
        "breaks": [],
    }
    assert cli("savepoint", "delete", "b", "--home", tmp_path).code == 2, "it is gone"
    assert len(audit.entries(home.storage)) == 5


def test_beside_a_running_app_no_line_of_the_audit_log_is_lost(tmp_path: Path, cli: Cli) -> None:
    home = with_savepoint(tmp_path)
    create.create(home, "second")
    with running(home):
        assert cli("savepoint", "delete", "first", "--home", tmp_path).code == 0
        listed = cli("audit", "list", "--home", tmp_path, "--json").json
        assert [one["what"] for one in listed] == ["savepoint", "savepoint", "savepoint delete"]
        # The app itself holds the home, and adds to the chain what was left.
        capture = Capture(home, "third", live=True, why=None, progress=silent)
        capture.take_plan()
        capture.complete(False)
        assert cli("savepoint", "delete", "second", "--home", tmp_path).code == 0
    with unfinished.held(home):
        pass
    lines = [json.loads(line) for line in (home.path / "audit.jsonl").read_text().splitlines()]
    assert [(one["what"], one["savepoint"]) for one in lines[2:]] == [
        ("savepoint delete", "first"),
        ("savepoint", "third"),
        ("savepoint delete", "second"),
    ]
    assert not audit.breaks(home.storage)
    assert home.storage.list("audit") == []


def test_a_kill_beside_a_running_app_leaves_the_savepoint_or_is_finished(tmp_path: Path) -> None:
    with_savepoint(tmp_path / "home")

    def seen(home: AppHome) -> tuple[Any, ...]:
        assert not audit.breaks(home.storage)
        whats = [one["what"] for one in audit.entries(home.storage)]
        names = Savepoints(home).names()
        for name in names:
            verify.require_whole(Savepoints(home).find(name), Savepoints(home).storage(name), silent)
        return names, home.storage.list("savepoints"), whats

    old = seen(AppHome(tmp_path / "home" / "shop"))
    new: tuple[Any, ...] = ([], [], ["savepoint", "savepoint delete"])
    shutil.copytree(tmp_path / "home", tmp_path / "done")
    with steps() as counted, running(AppHome(tmp_path / "done" / "shop")):
        delete(AppHome(tmp_path / "done" / "shop"))
    assert seen(AppHome(tmp_path / "done" / "shop")) == new
    finished = []
    for last in counted.turns():
        shutil.copytree(tmp_path / "home", tmp_path / "killed")
        home = AppHome(tmp_path / "killed" / "shop")
        with running(home), pytest.raises(Killed), steps(last):
            delete(home)
        if home.storage.list("deleting"):
            with pytest.raises(NameTaken, match=r"is being deleted|has a savepoint first"):
                Capture(home, "first", live=True, why=None, progress=silent)
        with unfinished.held(home):
            pass
        assert seen(home) in (old, new), f"after step {last}, {counted.kinds[last]}"
        finished.append(seen(home) == new)
        shutil.rmtree(tmp_path / "killed")
    assert finished == [False] + [True] * (len(finished) - 1)


def test_another_savepoint_of_the_same_name_is_not_deleted_by_an_old_command(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)
    with running(home), pytest.raises(Killed), steps(point=FaultPoint.DELETION_DONE):
        delete(home)
    kept = (home.path / "deleting" / "first.json").read_bytes()
    with unfinished.held(home):
        pass
    create.create(home, "first")
    home.storage.put("deleting/first.json", kept)
    with unfinished.held(home):
        pass
    verify.require_whole(Savepoints(home).find("first"), Savepoints(home).storage("first"), silent)


def exported(home: Path, meanwhile: Callable[[], None]) -> None:
    def told(what: str, done: int, of: int) -> None:
        if (what, done) == ("written", 1):
            meanwhile()

    archive.export(AppHome(home / "shop"), "first", home / "file", told)


def verified_and_exported(home: Path, meanwhile: Callable[[], None]) -> None:
    def told(what: str, done: int, of: int) -> None:
        if (what, done) == ("read", 1):
            meanwhile()

    archive.export(AppHome(home / "shop"), "first", home / "file", told)


def cloned(home: Path, meanwhile: Callable[[], None]) -> None:
    def handle(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.STORAGE_NAMED and facts["name"] == CLONE.record:
            meanwhile()

    with handled_by(handle):
        clone.clone(AppHome(home / "shop"), "first", AppHome(home / "green"), silent)


@pytest.mark.parametrize("read", [exported, verified_and_exported, cloned])
def test_who_reads_a_savepoint_that_is_deleted_fails_and_leaves_nothing(
    tmp_path: Path, read: Callable[[Path, Callable[[], None]], None]
) -> None:
    home = with_savepoint(tmp_path)
    with pytest.raises(SavepointUnusable, match=GONE):
        read(tmp_path, lambda: delete(home))
    assert not [path for path in tmp_path.iterdir() if path.name not in ("shop", "green")]
    left = [path for path in (tmp_path / "green").rglob("*") if path.is_file() and "lease" not in path.parts]
    assert left == []
    create.create(home, "first")
    read(tmp_path, lambda: None)
    assert (tmp_path / "file").exists() or (tmp_path / "green" / "app.json").exists()


def test_who_reads_a_savepoint_while_a_key_is_erased_from_it_fails(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)

    def erase() -> None:
        for file in home.storage.files("savepoints/first"):
            home.storage.copy(
                f"savepoints/first/{file.name}", f"{FORGET.prepared}/savepoints/first/{file.name}"
            )
        changed = f"{FORGET.prepared}/savepoints/first/savepoint.json"
        home.storage.put(changed, home.storage.read(changed).replace(b'"why": null', b'"why": "x"'))
        entry = audit.entry("forget", None)
        intent: dict[str, Any] = {"table": "totals", "key": {}, "batch": None, "deleted": []}
        intent["receipt"] = {"id": "x"}
        home.storage.put(FORGET.record, json.dumps({**intent, "entry": entry}).encode())
        # The first file of the savepoint is in place, and the manifest is not.
        with pytest.raises(Killed), steps(3):
            FORGET.finish(home)

    with pytest.raises(SavepointUnusable, match=GONE):
        exported(tmp_path, erase)
    FORGET.finish(home)
    verify.require_whole(Savepoints(home).find("first"), Savepoints(home).storage("first"), silent)


def test_a_savepoint_is_not_deleted_while_a_command_such_as_a_restore_holds_the_home(
    tmp_path: Path, cli: Cli
) -> None:
    home = with_savepoint(tmp_path)
    with unfinished.held(home):
        for words in (["delete", "first"], ["prune", "--keep", "0"]):
            refused = cli("savepoint", *words, "--home", tmp_path)
            assert refused.code == 3
            assert "another command, or a start, holds shop" in refused.err
    assert Savepoints(home).names() == ["first"]


def test_verify_says_that_a_savepoint_is_gone_in_place_of_its_damages(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)
    reading = Savepoints(home).reading("first")
    found = reading.__enter__()
    delete(home)
    assert verify.damages(found, Savepoints(home).storage("first"), silent)
    with pytest.raises(SavepointUnusable, match=GONE):
        reading.__exit__(None, None, None)


def test_of_two_who_delete_a_savepoint_at_once_one_does_and_is_audited(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)
    others: list[FaultPoint] = []

    def other(point: FaultPoint, facts: dict[str, Any]) -> None:
        # The second one has seen the savepoint, and is about to record its deletion.
        if point == FaultPoint.STORAGE_WRITTEN and facts["name"] == "deleting/first.json" and not others:
            others.append(point)
            Deletion(home, None, held=False).delete("first")

    with running(home), handled_by(other), pytest.raises(QueryError, match="no savepoint first"):
        Deletion(home, None, held=False).delete("first")
    with unfinished.held(home):
        pass
    assert [one["what"] for one in audit.entries(home.storage)] == ["savepoint", "savepoint delete"]
    assert home.storage.list("deleting") == []


def test_a_slow_deleter_leaves_a_new_savepoint_of_the_name_alone(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)
    delete_files, refused = LocalStorage.delete, []

    def new() -> None:
        capture = Capture(home, "first", live=True, why=None, progress=silent)
        for table in home.storage.list("tables"):
            capture.take_table(table)
        capture.take_plan()
        capture.complete(False)

    def slowly(storage: LocalStorage, name: str, **options: Any) -> None:
        if name == "savepoints/first" and not refused:
            refused.append(name)
            # It has seen that the manifest is gone. Another one finishes, and the name seems to be free.
            Deletion(home, None, held=False).delete("first")
            with suppress(NameTaken):
                new()
        delete_files(storage, name, **options)

    with running(home):
        with patch.object(LocalStorage, "delete", slowly):
            Deletion(home, None, held=False).delete("first")
        if "first" not in Savepoints(home).names():
            new()
        verify.require_whole(Savepoints(home).find("first"), Savepoints(home).storage("first"), silent)
    with unfinished.held(home):
        pass
    whats = [one["what"] for one in audit.entries(home.storage)]
    assert sorted(whats) == ["savepoint", "savepoint", "savepoint delete"]
    assert home.storage.list("deleting") == []


def test_the_name_is_free_again_after_a_deleter_was_killed(tmp_path: Path) -> None:
    home = with_savepoint(tmp_path)
    with running(home), pytest.raises(Killed), steps(point=FaultPoint.DELETION_DONE):
        delete(home)
    (claim,) = [name for name in home.storage.list("deleting") if not name.endswith(".json")]
    # Another process carries out the intent; the killed one has ended and left files behind.
    with running(home):
        Deletion(home, None, held=False).delete("first")
        with pytest.raises(NameTaken):
            Capture(home, "first", live=True, why=None, progress=silent)
        found = json.loads(home.storage.read(f"deleting/{claim}"))
        found["process"]["ticks"] = 1
        home.storage.put(f"deleting/{claim}", json.dumps(found).encode())
        Capture(home, "first", live=True, why=None, progress=silent)
    with unfinished.held(home):
        pass
    assert home.storage.list("deleting") == []
