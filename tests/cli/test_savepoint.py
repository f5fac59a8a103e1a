"""savepoint: what it captures, restores, clones and refuses, and what a kill in the middle leaves."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from keyfold.engine.operations.kinds import CLONE, RESTORE
from keyfold.engine.savepoint import clone, create
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.fault_points import FaultPoint
from tests.cli.conftest import Cli
from tests.cli.test_removal import audit, left, shop_in


def contents(home: AppHome) -> dict[str, bytes]:
    """The durable files of an app, without its savepoints."""
    kept = [home.path / "app.json", *(p for p in (home.path / "tables").rglob("*") if p.is_file())]
    return {str(path.relative_to(home.path)): path.read_bytes() for path in kept}


def change(home: AppHome) -> None:
    """What a run after the savepoint leaves: another batch, a changed log, a new table, other views."""
    totals = home.table("totals")
    (totals.checkpoint / "commits" / "2").write_text('v1\n{"a": 2}\n')
    (totals.checkpoint / "commits" / "1").unlink()
    (totals.log / "1.json").write_text("{}")
    (home.table("later").checkpoint / "commits").mkdir(parents=True)
    (home.table("later").checkpoint / "commits" / "0").write_text("v1\n{}\n")
    plan = home.read_plan()
    home.write_plan(plan.with_tables({**plan.tables, "later": StoredTable()}))
    (home.local / "views.db").unlink()


def with_ids(home: AppHome) -> None:
    """The ids of queries, which a clone changes."""
    for table in ("totals", "pairs", "kinds"):
        (home.table(table).checkpoint / "metadata").write_text('{"id":"one"}')


def test_a_savepoint_is_made_listed_shown_and_verified(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    made = cli("savepoint", "create", "first", "--why", "try", "--home", tmp_path, "--json")
    assert made.code == 0, made.err
    assert (made.json["name"], made.json["whole"], made.json["why"]) == ("first", True, "try")
    assert {name: table["batch"] for name, table in made.json["tables"].items()} == {
        "kinds": 1,
        "pairs": 1,
        "totals": 1,
    }
    cli("savepoint", "create", "second", "shop.totals", "--home", tmp_path)
    listed = cli("savepoint", "list", "--home", tmp_path, "--json").json
    assert [(one["name"], one["whole"]) for one in listed] == [("first", True), ("second", False)]
    assert "totals" in cli("savepoint", "list", "--home", tmp_path).out
    assert "totals" in cli("savepoint", "show", "first", "--home", tmp_path).out
    assert cli("savepoint", "verify", "first", "--home", tmp_path).code == 0
    saved = home.path / "savepoints" / "first" / "files"
    assert {name: (saved / name).read_bytes() for name in contents(home)} == contents(home)
    assert (saved / "app.json").stat().st_nlink == 3, "no space is used twice"


def test_a_restore_puts_everything_back_and_can_be_undone(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    before, views = contents(home), left(home)
    cli("savepoint", "create", "first", "--home", tmp_path)
    change(home)
    after = contents(home)
    done = cli("savepoint", "restore", "first", "--yes", "--why", "bad deploy", "--home", tmp_path, "--json")
    assert done.code == 0, done.err
    assert (done.json["removed"], done.json["whole"]) == (["later"], True)
    assert contents(home) == before
    assert left(home) == views
    line = audit(home)[-1]
    assert (line["what"], line["savepoint"], line["why"]) == ("restore", "first", "bad deploy")
    assert cli("savepoint", "restore", done.json["undo"], "--yes", "--home", tmp_path).code == 0
    assert contents(home) == after


def test_a_table_goes_back_with_those_that_read_it(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    before = contents(home)
    cli("savepoint", "create", "first", "--home", tmp_path)
    change(home)
    refused = cli("savepoint", "restore", "first", "totals", "--yes", "--home", tmp_path)
    assert refused.code == 2
    assert "totals is read by pairs, kinds" in refused.err
    done = cli("savepoint", "restore", "first", "totals", "pairs", "kinds", "--yes", "--home", tmp_path)
    assert done.code == 0, done.err
    now = contents(home)
    assert {name: now[name] for name in before if name.startswith("tables/")} == {
        name: content for name, content in before.items() if name.startswith("tables/")
    }
    assert "tables/later/checkpoint/commits/0" in now
    assert "later" in json.loads(now["app.json"])["tables"]


def test_a_damaged_savepoint_is_named_file_by_file_and_refused(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    cli("savepoint", "create", "first", "--home", tmp_path)
    files = home.path / "savepoints" / "first" / "files" / "tables"
    (files / "totals/checkpoint/commits/1").unlink()
    altered = files / "pairs/log/0.json"
    altered.unlink()
    altered.write_text("[]")
    (files / "kinds" / "more").write_text("x")
    change(home)
    now = contents(home)
    found = cli("savepoint", "verify", "first", "--home", tmp_path, "--json")
    assert (found.code, found.json["whole"]) == (1, False)
    assert {one["path"]: one["problem"] for one in found.json["damages"]} == {
        "tables/totals/checkpoint/commits/1": "is missing",
        "tables/pairs/log/0.json": "was altered",
        "tables/kinds/more": "is not part of the savepoint",
    }
    for words in (
        ["restore", "first", "--yes"],
        ["clone", "first", "green"],
        ["export", "first", tmp_path / "x"],
    ):
        refused = cli("savepoint", *words, "--home", tmp_path)
        assert refused.code == 1
        assert "tables/pairs/log/0.json was altered" in refused.err
    assert contents(home) == now
    assert not (tmp_path / "green" / "app.json").exists()
    assert not (tmp_path / "x").exists()
    (home.path / "savepoints" / "first" / "savepoint.json").write_text("{")
    assert "is damaged" in cli("savepoint", "show", "first", "--home", tmp_path).err
    assert cli("savepoint", "delete", "first", "--home", tmp_path).code == 0
    assert "first" not in Savepoints(home).names()


def test_one_file_carries_a_savepoint_to_another_home(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path / "one")
    before = contents(home)
    cli("savepoint", "create", "first", "--home", tmp_path / "one")
    file = tmp_path / "shop.savepoint"
    assert cli("savepoint", "export", "first", file, "--home", tmp_path / "one").code == 0
    assert cli("savepoint", "export", "first", file, "--home", tmp_path / "one").code == 2, "it exists"
    nowhere = cli("savepoint", "export", "first", tmp_path / "no" / "x", "--home", tmp_path / "one")
    assert (nowhere.code, "no is not a directory" in nowhere.err) == (2, True)
    (tmp_path / "two").mkdir()
    assert cli("savepoint", "import", file, "--name", "moved", "--home", tmp_path / "two").code == 0
    done = cli("savepoint", "restore", "moved", "--yes", "--home", tmp_path / "two")
    assert done.code == 0, done.err
    assert contents(AppHome(tmp_path / "two" / "shop")) == before
    assert cli("savepoint", "import", file, "--name", "moved", "--home", tmp_path / "two").code == 2
    with tarfile.open(file) as tar:
        assert tar.getnames()[0] == "savepoint.json"
    whole = file.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        whole.replace(b'v1\n{"a": 1}', b'v1\n{"a": 2}', 1),
        b"no archive",
    ):
        file.write_bytes(damaged)
        refused = cli("savepoint", "import", file, "--name", "bad", "--home", tmp_path / "two")
        assert refused.code == 1
        assert "is not a complete savepoint" in refused.err
    assert Savepoints(AppHome(tmp_path / "two" / "shop")).names() == sorted(
        Savepoints(AppHome(tmp_path / "two" / "shop")).names()
    )
    assert not (tmp_path / "two" / "shop" / "savepoints" / "bad").exists()


def test_a_clone_is_an_app_of_its_own(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    with_ids(home)
    before = contents(home)
    cli("savepoint", "create", "first", "--home", tmp_path)
    done = cli("savepoint", "clone", "first", "green", "--app", "shop", "--home", tmp_path)
    assert done.code == 0, done.err
    green = AppHome(tmp_path / "green")
    found = contents(green)
    assert json.loads(found.pop("app.json"))["app"] == "green"
    ids = [found.pop(f"tables/{table}/checkpoint/metadata") for table in ("totals", "pairs", "kinds")]
    assert len({*ids, b'{"id":"one"}'}) == 4
    assert found == {name: c for name, c in before.items() if name != "app.json" and "metadata" not in name}
    assert cli("savepoint", "clone", "first", "green", "--app", "shop", "--home", tmp_path).code == 2, (
        "it exists"
    )
    assert cli("get", "green.totals", "us", "--home", tmp_path).code == 0
    assert contents(home) == before


def test_sinks_of_what_was_put_back_or_cloned_are_new_to_their_destinations(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    sink = home.table("totals").path / "sinks" / "0.json"
    sink.parent.mkdir()
    sink.write_text('{"batch": 1, "topic": "t", "id": "one"}')
    cli("savepoint", "create", "first", "--home", tmp_path)
    sink.unlink()
    sink.write_text('{"batch": 9, "topic": "t", "id": "one"}')
    cli("savepoint", "clone", "first", "green", "--app", "shop", "--home", tmp_path)
    cli("savepoint", "restore", "first", "--app", "shop", "--yes", "--home", tmp_path)
    for found in (home, AppHome(tmp_path / "green")):
        known = json.loads((found.table("totals").path / "sinks" / "0.json").read_text())
        assert known == {"batch": 1, "topic": "t"}
    saved = home.path / "savepoints/first/files/tables/totals/sinks/0.json"
    assert json.loads(saved.read_text())["id"] == "one", "the savepoint is as it was"


def test_names_running_apps_and_unknown_savepoints_are_refused(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    cli("savepoint", "create", "first", "--home", tmp_path)
    for words, text in (
        (["create", "../x"], "letters, digits"),
        (["create", "first"], "has a savepoint first"),
        (["create", "x", "totalz"], "did you mean 'totals'?"),
        (["show", "furst"], "did you mean 'first'?"),
        (["restore", "first", "nothing", "--yes"], "has no table nothing"),
        (["restore", "first"], "--yes confirms it"),
        (["delete", "x"], "no savepoint x"),
    ):
        refused = cli("savepoint", *words, "--home", tmp_path)
        assert refused.code == 2, words
        assert text in refused.err
    lease = Lease(home).take()
    try:
        for words in (["create", "x"], ["restore", "first", "--yes"]):
            held = cli("savepoint", *words, "--home", tmp_path)
            assert held.code == 3
            assert "and this command needs the app stopped" in held.err
            assert ("--live makes it between two batches" in held.err) == (words[0] == "create")
    finally:
        lease.release()
    assert Savepoints(home).names() == ["first"]


def test_what_was_done_is_listed_and_a_changed_line_shows(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    assert cli("audit", "verify", "--home", tmp_path, "--json").json["entries"] == 0
    cli("savepoint", "create", "first", "--why", "before", "--home", tmp_path)
    cli("reset", "kinds", "--yes", "--why", "broken", "--home", tmp_path)
    cli("savepoint", "restore", "first", "--yes", "--home", tmp_path)
    listed = cli("audit", "list", "--home", tmp_path, "--json").json
    assert [(one["what"], one["why"]) for one in listed] == [
        ("savepoint", "before"),
        ("reset", "broken"),
        ("savepoint", "before the restore of first"),
        ("restore", None),
    ]
    assert "kinds 1" in cli("audit", "list", "--home", tmp_path).out
    whole = cli("audit", "verify", "--home", tmp_path, "--json")
    assert (whole.code, whole.json) == (0, {"entries": 4, "whole": True, "breaks": []})
    file = home.path / "audit.jsonl"
    lines = file.read_text().splitlines()
    for changed, broken in (
        ([lines[0], lines[1].replace("broken", "fine"), *lines[2:]], [3]),
        ([lines[0], *lines[2:]], [2]),
        ([lines[0], "nonsense", *lines[2:]], [2, 3]),
    ):
        file.write_text("\n".join(changed) + "\n")
        found = cli("audit", "verify", "--home", tmp_path, "--json")
        assert (found.code, [one["line"] for one in found.json["breaks"]]) == (1, broken)


def test_old_savepoints_are_pruned(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    for name in ("c", "a", "b"):
        cli("savepoint", "create", name, "--home", tmp_path)
    assert cli(
        "savepoint", "prune", "--keep", "1", "--older-than", "1 day", "--home", tmp_path, "--json"
    ).json == {"deleted": []}
    assert cli("savepoint", "prune", "--keep", "1", "--home", tmp_path, "--json").json == {
        "deleted": ["c", "a"]
    }
    assert Savepoints(home).names() == ["b"]


KILLED = """
import os, sys
from pathlib import Path
from keyfold.engine.savepoint import clone, create, restore
from keyfold.engine.storage.layout import AppHome, local_app_home
from keyfold.fault_points import handled_by

home, act, point, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
seen = 0

def kill(at, facts):
    global seen
    seen += at == point
    if seen > number:
        os.kill(os.getpid(), 9)

from keyfold.engine.savepoint.capture import silent
with handled_by(kill):
    if act == "create":
        create.create(AppHome(home / "shop"), "second")
    elif act == "restore":
        restore.restore(AppHome(home / "shop"), "first", (), None, silent)
    else:
        clone.clone(AppHome(home / "shop"), "first", local_app_home(home, "green"), silent)
"""


def killed(home: Path, act: str, point: FaultPoint, number: int = 0) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, home, act, point, str(number)], check=False)
    assert done.returncode == -9


@pytest.mark.parametrize("step", [FaultPoint.SAVEPOINT_TABLE_TAKEN, FaultPoint.SAVEPOINT_READ])
def test_a_kill_while_a_savepoint_is_made_leaves_none(tmp_path: Path, step: FaultPoint) -> None:
    home = shop_in(tmp_path)
    before = contents(home)
    killed(tmp_path, "create", step)
    assert Savepoints(home).names() == []
    assert contents(home) == before
    create.create(home, "third")
    assert sorted(path.name for path in (home.path / "savepoints").iterdir()) == ["third"]


@pytest.mark.parametrize(
    "step",
    [
        FaultPoint.RESTORE_REQUESTED,
        FaultPoint.RESTORE_RECORDED,
        FaultPoint.RESTORE_TABLE_DONE,
        FaultPoint.RESTORE_VIEW_DONE,
        FaultPoint.RESTORE_PLAN_DONE,
    ],
)
def test_a_kill_in_a_restore_leaves_all_or_is_finished_by_the_next_start(
    tmp_path: Path, step: FaultPoint
) -> None:
    home = shop_in(tmp_path)
    create.create(home, "first")
    before = contents(home)
    change(home)
    after = contents(home)
    killed(tmp_path, "restore", step)
    for _ in range(2):
        RESTORE.finish(home)
        assert contents(home) == (after if step == FaultPoint.RESTORE_REQUESTED else before)
    restored = [line for line in audit(home) if line["what"] == "restore"]
    assert len(restored) == (0 if step == FaultPoint.RESTORE_REQUESTED else 1)


@pytest.mark.parametrize("files", [0, 3, 5])
def test_a_kill_in_a_clone_leaves_no_app(tmp_path: Path, files: int) -> None:
    home = shop_in(tmp_path)
    with_ids(home)
    create.create(home, "first")
    killed(tmp_path, "clone", FaultPoint.STORAGE_NAMED, files)
    green = AppHome(tmp_path / "green")
    CLONE.finish(green)
    assert not [path for path in green.path.rglob("*") if path.is_file() and "lease" not in path.parts]
    clone.clone(home, "first", green, silent)
    assert (green.path / "app.json").exists()


def test_a_rescale_that_was_killed_is_finished_before_a_savepoint_is_made(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    for table in ("totals", "kinds"):
        commits = home.path / "rescaling" / table / "checkpoint" / "commits"
        commits.mkdir(parents=True)
        (commits / "2").write_text("v1\n{}\n")
    entry = {"id": "1", "what": "rescale", "tables": ["totals"], "partitions": [2, 4]}
    (home.path / "rescaling.json").write_text(json.dumps(entry))
    made = cli("savepoint", "create", "first", "--home", tmp_path, "--json")
    assert made.code == 0, made.err
    assert made.json["tables"]["totals"]["batch"] == 2
    assert not (home.path / "rescaling.json").exists()
    assert not (home.path / "rescaling").exists()
    assert json.loads((home.path / "app.json").read_text())["tables"]["totals"]["partitions"] == 4
    (home.path / "rescaling.json").write_text(json.dumps({**entry, "id": "2"}))
    cli("savepoint", "restore", "first", "--yes", "--home", tmp_path)
    assert home.table("totals").committed_batch() == 2, "there was no new state to put in its place"
