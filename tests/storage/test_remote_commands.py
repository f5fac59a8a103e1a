"""The commands that move, check and change state, on a home that is not on a local disk."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine import session
from keyfold.engine.operations import unfinished
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from keyfold.fault_points import FaultPoint
from tests.engine.recovery.test_migrate import Killed, killing
from tests.storage.home_contract import write

pytestmark = pytest.mark.jvm
roots = count()

APP = """
import keyfold as kf

app = kf.App({name!r})
files = kf.files({inbox!r}, maxFilesPerTrigger=1)
orders = app.stream("orders", files, "region string, id bigint, at timestamp")
sums = orders.by("region").table("sums", {columns}, history="1 day")
sums.changes().by(all="1").table("whole", regions="count(*)", n="sum(n)")
"""
OLD = 'n="count(*)", ids="sum(id)"'
NEW = 'n="count(*)", ids="sum(id)", last="max(id)"'

Keyfold = Callable[..., Any]


BEGUN = """
import keyfold as kf

app = kf.App({name!r})
orders = app.stream("orders", kf.files({inbox!r}), "region string, id bigint, at timestamp")
sums = orders.by("region").table("sums", {columns}, initial={initial})
sums.changes().by(all="1").table("whole", regions="count(*)", n="sum(n)")
"""


def declared(file: Path, **parts: str) -> kf.App:
    """Writes the file of an app that begins with something; returns the app."""
    text = BEGUN.format(**{"name": "shop", "columns": OLD, **parts})
    file.write_text(text)
    made: dict[str, Any] = {}
    exec(compile(text, file, "exec"), made)
    return made["app"]  # type: ignore[no-any-return]


@pytest.fixture
def keyfold(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Keyfold:
    """Calls a command in the session of the tests; returns its JSON document."""
    monkeypatch.setenv("KEYFOLD_LOCAL", str(tmp_path / "local"))

    def call(*words: object, code: int = 0) -> Any:
        capsys.readouterr()
        ended = main([*map(str, words), "--json"])
        out, err = capsys.readouterr()
        assert ended == code, (words, err)
        return json.loads(out)

    return call


def rows(found: Any) -> dict[str, tuple[int, int]]:
    return {row["region"]: (row["n"], row["ids"]) for row in found}


@pytest.mark.timeout(900)
def test_state_is_moved_checked_and_changed_on_remote_storage(
    spark: Any, hdfs: str, tmp_path: Path, keyfold: Keyfold
) -> None:
    home, other = f"{hdfs}/commands/{next(roots)}", f"{hdfs}/commands/{next(roots)}"
    inbox, file = tmp_path / "in", tmp_path / "app.py"

    def declare(columns: str, name: str = "shop") -> kf.App:
        text = APP.format(name=name, inbox=str(inbox), columns=columns)
        file.write_text(text)
        made: dict[str, Any] = {}
        exec(compile(text, file, "exec"), made)
        return made["app"]  # type: ignore[no-any-return]

    def run(app: kf.App, where: str) -> tuple[dict[str, tuple[int, int]], list[Any]]:
        with app.start(spark=spark, home=where, local=tmp_path / "local") as handle:
            handle.drain()
            whole = [(row["regions"], row["n"]) for row in handle.table("whole").rows()]
            return rows(handle.table("sums").rows()), whole

    # Each file has two rows of eu and one of us, with its number as the id.
    write(inbox, 1)
    app = declare(OLD)
    at_home = ("--home", home)
    assert run(app, home) == ({"eu": (2, 2), "us": (1, 1)}, [(2, 3)])
    made = keyfold("savepoint", "create", "first", "--state", *at_home)
    assert made["tables"]["sums"]["state"]
    assert keyfold("savepoint", "verify", "first", "--state", *at_home)["rows"]["sums"] == 2
    write(inbox, 2)
    assert run(app, home) == ({"eu": (4, 6), "us": (2, 3)}, [(2, 6)])

    # Its contents can be read, compared and proved.
    read = keyfold("state", "read", "shop.sums", "--key", "eu", *at_home)
    assert [row["n_count"] for row in read["rows"]] == [4]
    changed = keyfold("state", "diff", "first", "now", "shop.sums", *at_home, code=1)
    assert len(changed["changes"]) == 2
    history = keyfold("state", "history", "shop.sums", "us", *at_home)
    assert [change["row"]["n"] for change in history["changes"]] == [1, 2]
    verified = keyfold("verify", file, *at_home)
    assert [one["equal"] for one in verified["tables"]] == [True, True]

    # More partitions, another definition, without a person.
    assert keyfold("rescale", "shop.sums", "3", *at_home)["partitions"][1] == 3
    app = declare(NEW)
    assert keyfold("migrate", file, *at_home)["tables"] == ["sums"]
    receipt = keyfold("forget", "shop.sums", "us", "--yes", *at_home)
    assert receipt["home"]["state_rows"] > 0
    assert receipt["savepoints"]["first"]["state_rows"] > 0
    write(inbox, 3)
    assert run(app, home) == ({"eu": (6, 12), "us": (1, 3)}, [(2, 7)])
    verified = keyfold("verify", file, *at_home)
    assert [one["equal"] for one in verified["tables"]] == [True, True]
    assert keyfold("audit", "verify", *at_home)["whole"]

    # Blue and green, on remote storage and on a laptop; one file carries a savepoint elsewhere.
    keyfold("savepoint", "create", "second", *at_home)
    keyfold("savepoint", "clone", "second", "green", *at_home)
    at_home = ("--app", "shop", *at_home)
    keyfold("savepoint", "clone", "second", "laptop", "--to-home", tmp_path / "laptop", *at_home)
    keyfold("savepoint", "export", "second", tmp_path / "file", *at_home)
    write(inbox, 4)
    for name, where in (("green", home), ("laptop", str(tmp_path / "laptop"))):
        assert run(declare(NEW, name), where) == ({"eu": (8, 20), "us": (2, 7)}, [(2, 10)])
    os.environ["KEYFOLD_LOCAL"] = str(tmp_path / "elsewhere")
    assert keyfold("savepoint", "import", tmp_path / "file", "--home", other)["name"] == "second"
    keyfold("savepoint", "restore", "second", "--yes", "--home", other)
    keyfold("savepoint", "clone", "second", "blue", "--to-home", home, "--home", other)
    os.environ["KEYFOLD_LOCAL"] = str(tmp_path / "local")

    # Back: what came since is processed again.
    keyfold("savepoint", "restore", "first", "--yes", *at_home)
    assert run(declare(OLD), home) == ({"eu": (8, 20), "us": (3, 9)}, [(2, 11)])
    assert keyfold("savepoint", "prune", "--keep", "1", *at_home)["deleted"]


@pytest.mark.timeout(600)
def test_tables_begin_with_history_and_are_rebuilt_on_remote_storage(
    spark: Any, hdfs: str, tmp_path: Path, keyfold: Keyfold, capsys: pytest.CaptureFixture[str]
) -> None:
    home, local, lost = f"{hdfs}/begun/{next(roots)}", tmp_path / "local", tmp_path / "lost"
    file, inbox, past, at_home = tmp_path / "app.py", tmp_path / "in", tmp_path / "old", ("--home", home)
    write(past, 1)
    write(inbox, 2)

    def run(app: kf.App, where: str = home) -> tuple[dict[str, tuple[int, int]], list[Any]]:
        with app.start(spark=spark, home=where, local=local) as handle:
            handle.drain()
            whole = [(row["regions"], row["n"]) for row in handle.table("whole").rows()]
            return rows(handle.table("sums").rows()), whole

    # Files first, then the stream. The process is killed, and another one, with other local files, continues.
    with_files = {"inbox": str(inbox), "initial": f"kf.files({str(past)!r})"}
    app = declared(file, **with_files)
    with killing(FaultPoint.MIGRATION_RECORDED), pytest.raises(Killed):
        app.start(spark=spark, home=home, local=lost)
    assert run(app) == ({"eu": (4, 6), "us": (2, 3)}, [(2, 6)])
    keyfold("savepoint", "create", "then", *at_home)

    # The history was wrong. What has read it is rebuilt with it, also if that is killed once it is certain.
    write(past, 1)
    (past / "1.json").write_text((past / "1.json").read_text().replace('"id": 1', '"id": 5'))
    assert main(["rebuild", str(file), "sums", *at_home]) == 2
    assert "sums --with-readers" in capsys.readouterr().err
    with killing(FaultPoint.MIGRATION_SWITCHED, 2), pytest.raises(Killed):
        main(["rebuild", str(file), "sums", "--with-readers", *at_home])
    assert run(app) == ({"eu": (4, 14), "us": (2, 7)}, [(2, 6)])
    assert [one["what"] for one in keyfold("audit", "list", *at_home)][-1] == "rebuild"
    # What a killed process has left on its own disk goes when it is back.
    assert (lost / "shop" / "migrating").exists()
    with unfinished.held(AppHome(lost / "shop", SparkStorage(session.kernel(spark), spark, f"{home}/shop"))):
        pass
    for where in (lost, local):
        assert not (where / "shop" / "migrating").exists()

    # Commands that read local files say since when an added column covers rows.
    app = declared(file, **{**with_files, "columns": NEW})
    keyfold("migrate", file, *at_home)
    since = keyfold("describe", file, *at_home)["since"]["sums"]["last"]
    assert since["batch"] == keyfold("audit", "list", *at_home)[-1]["batches"]["sums"]
    assert main(["rows", "shop.sums", *at_home]) == 0
    assert "last covers rows since" in capsys.readouterr().err
    write(inbox, 3)
    assert run(app) == ({"eu": (6, 20), "us": (3, 10)}, [(2, 9)])

    # The savepoint is older than that; another app continues from it, here and in a home on a local disk.
    for name, where, of in (("other", home, ""), ("laptop", str(tmp_path / "laptop"), f", home={home!r}")):
        initial = f'kf.savepoint("then", app="shop", table="sums"{of})'
        made = declared(file, name=name, inbox=str(inbox), initial=initial)
        assert run(made, where) == ({"eu": (6, 12), "us": (3, 6)}, [(2, 9)])
