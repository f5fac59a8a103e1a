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

    # What is there can be read, compared and proved.
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
