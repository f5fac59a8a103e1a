"""drop and reset: what they remove and leave, what they refuse, and what a kill in the middle leaves."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold.engine.operations.kinds import REMOVE
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.fault_points import FaultPoint
from tests.cli.conftest import KINDS, PAIRS, ROWS, TOTALS, Cli, make_app

RUNNING = (
    "shop is running, and this command needs the app stopped\n"
    f"  given: pid {os.getpid()}\n"
    "  try: stop it first\n"
)
NEED_A_STOPPED_APP = (
    ["drop", "kinds", "--yes"],
    ["reset", "kinds", "--yes"],
    ["forget", "totals", "eu", "--yes"],
    ["state", "delete", "totals", "eu"],
    ["savepoint", "restore", "first", "--yes"],
    ["log", "compact", "totals"],
)


def shop_in(home: Path) -> AppHome:
    """An app of three tables; pairs reads totals, and kinds reads pairs."""
    app_home = AppHome(home / "shop")
    make_app(app_home, {schema: ROWS[schema] for schema in (TOTALS, PAIRS, KINDS)})
    for table, read in (("totals", None), ("pairs", "totals"), ("kinds", "pairs")):
        checkpoint = app_home.table(table).checkpoint
        for log in ("offsets", "commits"):
            (checkpoint / log).mkdir(parents=True)
            (checkpoint / log / "1").write_text('v1\n{"a": 1}\n')
        app_home.table(table).log.mkdir()
        (app_home.table(table).log / "0.json").write_text("{}")
        if read is not None:
            (app_home.table(table).path / "inputs" / f"0-{read}").mkdir(parents=True)
    return app_home


def left(home: AppHome) -> dict[str, object]:
    """What a home has of its tables: their files, views and entries."""
    store = home.views.open(read_only=True)
    try:
        views = {name: list(store.scan(name)) for name in store.tables()}
    finally:
        store.close()
    files = [path for path in (home.path / "tables").rglob("*") if path.is_file()]
    plan = home.read_plan()
    return {
        "files": sorted(str(path.relative_to(home.path)) for path in files),
        "views": {name: repr(rows) for name, rows in views.items()},
        "plan": plan.tables,
        "declared": list(plan.declared_tables),
    }


def without(before: dict[str, object], table: str) -> dict[str, object]:
    files, views, plan = before["files"], before["views"], before["plan"]
    assert isinstance(files, list)
    assert isinstance(views, dict)
    assert isinstance(plan, dict)
    return {
        **before,
        "files": [name for name in files if not name.startswith(f"tables/{table}/")],
        "views": {name: rows for name, rows in views.items() if name != table},
        "plan": {name: entry for name, entry in plan.items() if name != table},
    }


def audit(home: AppHome) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home.path / "audit.jsonl").read_text().splitlines()]


def test_reset_removes_one_table_leaves_the_others_and_is_written_down(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    before = left(home)
    done = cli("reset", "kinds", "--yes", "--why", "it was broken", "--home", tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("shop.kinds: ")
    assert "the next start reads its sources from the first row" in done.out
    assert left(home) == without(before, "kinds")
    (line,) = audit(home)
    assert (line["what"], line["tables"], line["why"]) == ("reset", ["kinds"], "it was broken")
    assert line["batches"] == {"kinds": 1}
    assert line["user"]
    assert (home.path / "audit.jsonl").stat().st_mode & 0o077 == 0
    assert not (home.path / "removing.json").exists()


def test_drop_forgets_the_declaration_too(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    done = cli("drop", "shop.kinds", "--yes", "--json", "--home", tmp_path)
    assert (done.json["app"], done.json["what"], done.json["tables"]) == ("shop", "drop", ["kinds"])
    assert done.json["view"] is None
    assert left(home)["declared"] == ["totals", "pairs"]
    assert cli("drop", "shop.kinds", "--yes", "--home", tmp_path).code == 2


def test_a_table_that_others_read_goes_with_them_or_not_at_all(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    before = left(home)
    for words in (["drop", "totals"], ["reset", "totals"]):
        refused = cli(*words, "--yes", "--home", tmp_path)
        assert refused.code == 2
        assert "shop.totals is read by pairs, kinds, whose state contains its rows" in refused.err
        assert "--with-readers" in refused.err
    assert left(home) == before
    done = cli("reset", "totals", "--with-readers", "--yes", "--json", "--home", tmp_path)
    assert done.json["tables"] == ["totals", "pairs", "kinds"]
    assert (left(home)["files"], left(home)["views"]) == ([], {})


def test_what_can_be_refused_is_refused_before_anything_is_removed(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    before = left(home)
    unasked = subprocess.run(
        [sys.executable, "-m", "keyfold", "reset", "kinds", "--home", tmp_path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert unasked.returncode == 2
    assert "--yes confirms it" in unasked.stderr
    unknown = cli("reset", "kindz", "--yes", "--home", tmp_path)
    assert unknown.code == 2
    assert "did you mean 'kinds'?" in unknown.err
    lease = Lease(home).take()
    try:
        held = cli("drop", "kinds", "--yes", "--home", tmp_path, "--json")
        assert (held.code, held.json["error"]["kind"]) == (3, "HomeLocked")
        lease.holds_jvm(os.getpid())
        said = [cli(*words, "--home", tmp_path) for words in NEED_A_STOPPED_APP]
        assert {(one.code, one.err) for one in said} == {(3, RUNNING)}
    finally:
        lease.release()
    assert left(home) == before


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_is_asked(tmp_path: Path, answer: str, code: int) -> None:
    home = shop_in(tmp_path)
    before = left(home)
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "keyfold", "reset", "kinds", "--home", str(tmp_path)]
    with subprocess.Popen(command, stdin=child, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.write(parent, f"{answer}\n".encode())
        out, err = process.communicate(timeout=60)
    os.close(parent)
    os.close(child)
    assert process.returncode == code, err
    assert b"reset shop.kinds? This deletes state, view and side outputs, " in err + out
    assert left(home) == (before if code else without(before, "kinds"))


KILLED = """
import os, sys
from pathlib import Path
from keyfold.engine.operations import removal as table_removal
from keyfold.engine.storage.layout import AppHome
from keyfold.fault_points import handled_by

def kill(point, facts):
    if point == sys.argv[2]:
        os.kill(os.getpid(), 9)

with handled_by(kill):
    table_removal.remove(AppHome(Path(sys.argv[1])), "reset", ["kinds"])
"""
STEPS = [
    FaultPoint.REMOVAL_REQUESTED,
    FaultPoint.REMOVAL_RECORDED,
    FaultPoint.FILES_REMOVED,
    FaultPoint.VIEWS_REMOVED,
    FaultPoint.DEFINITION_REMOVED,
]


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_in_the_middle_leaves_all_or_is_finished_by_the_next_start(
    tmp_path: Path, step: FaultPoint
) -> None:
    home = shop_in(tmp_path)
    before = left(home)
    killed = subprocess.run([sys.executable, "-c", KILLED, home.path, step], check=False)
    assert killed.returncode == -9
    recorded = step != FaultPoint.REMOVAL_REQUESTED
    if not recorded:
        assert left(home) == before
    REMOVE.finish(home)
    REMOVE.finish(home)
    assert left(home) == (without(before, "kinds") if recorded else before)
    assert not recorded or len(audit(home)) == 1


def test_a_damaged_app_json_or_views_db_is_no_reason_not_to_remove_a_table(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    (home.local / "views.db").write_bytes(b"not a database at all" * 100)
    done = cli("reset", "kinds", "--yes", "--home", tmp_path)
    assert done.code == 1, "the view is still there"
    assert "cannot remove the view" in done.err
    assert "file is not a database" in done.err
    assert "move views.db" in done.err
    assert not home.table("kinds").path.exists()
    cut = home.plan.read_text()[:40]
    home.plan.write_text(cut)
    assert cli("reset", "pairs", "--yes", "--home", tmp_path).code == 1
    assert not home.table("pairs").path.exists()
    assert home.plan.read_text() == cut
    home.plan.unlink()
    (home.local / "views.db").unlink()
    assert cli("drop", "shop.totals", "--yes", "--home", tmp_path).code == 0
    assert [line["tables"] for line in audit(home)] == [["kinds"], ["pairs"], ["totals"]]


def test_a_view_that_is_damaged_says_what_to_do(tmp_path: Path, cli: Cli) -> None:
    home = shop_in(tmp_path)
    (home.local / "views.db").write_bytes(b"not a database at all" * 100)
    said = cli("get", "totals", "eu", "--home", tmp_path)
    assert said.code == 1
    assert "cannot read the views: file is not a database" in said.err
    assert "move views.db, views.db-wal and views.db-shm away" in said.err
    assert cli("status", "--home", tmp_path).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["forget", "shop.totals", "--yes", "-5"],
        ["state", "delete", "shop.totals", "-5"],
        ["state", "put", "{file}", "totals", "-5", "n_count=1"],
        ["verify", "{file}"],
        ["migrate", "{file}"],
        ["rebuild", "{file}", "totals"],
        ["rebuild", "{file}", "--view"],
    ],
)
def test_a_running_app_is_refused_before_spark_starts(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """A negative number is a key here, and no option."""
    file = tmp_path / "shop.py"
    file.write_text(
        "import keyfold as kf\napp = kf.App('shop')\n"
        "app.stream('rows', kf.rows([]), schema='k int').by('k').table('totals', n='count(*)')\n"
    )
    home = AppHome(tmp_path / "home" / "shop")
    home.path.mkdir(parents=True)
    home.write_plan(StoredApp({"totals": StoredTable()}))
    lease = Lease(home).take()
    try:
        given = [word.format(file=file) for word in words]
        results = [cli(*given, "--home", tmp_path / "home")]
        if words[0] in ("migrate", "rebuild"):
            # Of a home elsewhere, which Spark alone can open, local files say who runs it on this host.
            monkeypatch.setenv("KEYFOLD_LOCAL", str(tmp_path / "home"))
            results.append(cli(*given, "--home", "hdfs://127.0.0.1:1/home"))
    finally:
        lease.release()
    for result in results:
        assert result.code == 3
        assert f"holds shop, and this command needs the app stopped\n  given: pid {os.getpid()}" in result.err
        assert "Spark" not in result.err
