"""verify: views are compared with state and log, and repaired."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from keyfold.engine.log.retention import forget_changes
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.views.sqlite import connections
from keyfold.views.stores import views_in
from tests.cli.conftest import Cli, write
from tests.engine.recovery.kills import steps

pytestmark = pytest.mark.jvm

APP = """
import keyfold as kf

app = kf.App("shop")
orders = app.stream("orders", kf.files("data"), schema="k string, x double, t timestamp", time="t")
orders.by("k").table("sums", n="count(*)", total="sum(x)", history="1 day")
orders.by("k").tumbling("1 minute").table("minutes", n="count(*)")
orders.by("k").tumbling("1 minute").table("finals", n="count(*)", emit="final", history="1 day")
orders.by("k").top(1, by="x desc").table("best", x="x")
"""
PATTERN = """
import keyfold as kf

app = kf.App("cards")
rows = kf.rows([{"k": "a", "x": 1}, {"k": "b", "x": 1}, {"k": "a", "x": 2}])
pair = kf.step("one", "x = 1") >> kf.step("two", "x = 2")
by = app.stream("orders", rows, schema="k string, x int").by("k")
by.pattern("seen", pair, within="1 hour", order="arrival", history="1 day")
"""


def views(directory: Path) -> dict[str, list[Any]]:
    """The rows of all tables, and their positions."""
    store = views_in(directory / "views.db").open(read_only=True)
    try:
        return {name: [store.position(name), *map(repr, store.scan(name))] for name in store.tables()}
    finally:
        store.close()


@contextmanager
def kept_before_every_statement(file: Path, directory: Path) -> Iterator[list[Path]]:
    """Copies of a database as it is on disk before each statement that is run on it for writing."""
    kept: list[Path] = []

    def keep() -> None:
        kept.append(directory / str(len(kept)))
        kept[-1].mkdir(parents=True)
        # By another process: closing the file here would release the locks that this one holds on it.
        subprocess.run(["cp", *file.parent.glob(f"{file.name}*"), kept[-1]], check=True)

    class Watched(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            keep()
            return super().execute(*given)

        def executemany(self, *given: Any) -> sqlite3.Cursor:
            keep()
            return super().executemany(*given)

        def commit(self) -> None:
            keep()
            super().commit()

    connect = sqlite3.connect

    def connected(database: Any, *given: Any, **options: Any) -> sqlite3.Connection:
        watched = not options.get("uri") and Path(database).resolve() == file
        return connect(database, *given, **{**options, **({"factory": Watched} if watched else {})})

    with patch.object(connections.sqlite3, "connect", connected):
        yield kept


def test_a_view_that_was_altered_is_found_key_by_key_and_repaired(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "shop.py", APP)
    (tmp_path / "data").mkdir()
    rows = [(k, x, minute) for minute in range(3) for x, k in enumerate("abc")]
    lines = [f'{{"k": "{k}", "x": {x}.1, "t": "2026-01-01T00:0{m}:00Z"}}\n' for k, x, m in rows]
    write(tmp_path / "data" / "0.json", "".join(lines))
    assert cli("run", "shop.py", "--drain").code == 0
    whole = cli("verify", "shop.py", "--json")
    assert whole.code == 0, whole.err
    assert {one["table"]: (one["rows"], one["equal"]) for one in whole.json["tables"]} == {
        "sums": (3, True),
        "minutes": (9, True),
        "finals": (6, True),
        "best": (3, True),
    }
    assert {one["table"]: one["log"]["compared"] for one in whole.json["tables"]} == dict.fromkeys(
        ("sums", "minutes", "finals", "best"), True
    )
    with closing(sqlite3.connect(tmp_path / ".keyfold" / "shop" / "views.db")) as view, view:
        view.execute("UPDATE sums SET n = 7 WHERE k = 'a'")
        view.execute("DELETE FROM sums WHERE k = 'b'")
        view.execute("UPDATE best SET x = 1 WHERE k = 'c'")
    assert cli("verify", "shop.py", "sumz").code == 2
    home = tmp_path / ".keyfold" / "shop"
    old = views(home)
    with steps() as counted, kept_before_every_statement(home / "views.db", tmp_path / "kept") as kept:
        wrong = cli("verify", "shop.py", "--repair", "--why", "altered by hand", "--json")
    assert wrong.code == 0, wrong.err
    new = views(home)
    # Each is what a kill would have left at that time: of each table the old rows, or the new ones.
    left = [views(directory) for directory in kept]
    assert all(found[table] in (old[table], new[table]) for found in left for table in old)
    assert left[0] == old
    assert {"sums", "best"} == {table for table in old if old[table] != new[table]}
    between = [found for found in left if found not in (old, new)]
    assert all(found["sums"] == new["sums"] and found["best"] == old["best"] for found in between)
    assert counted.kinds == ["put", "put", "delete"], "but for the views: a record, the audit log"
    line = cli("audit", "list", "--json").json[-1]
    assert (line["what"], line["views"], line["why"]) == (
        "verify --repair",
        ["sums", "best"],
        "altered by hand",
    )
    sums, best = (next(o for o in wrong.json["tables"] if o["table"] == name) for name in ("sums", "best"))
    assert sums["state"]["differences"] == [
        {"key": {"k": "a"}, "problem": "has other values"},
        {"key": {"k": "b"}, "problem": "is missing"},
    ]
    assert sums["log"]["differences"] == sums["state"]["differences"]
    assert (sums["equal"], sums["repaired"], best["repaired"]) == (False, True, True)
    assert [row["n"] for row in cli("rows", "shop.sums", "--json").json] == [3, 3, 3]
    assert [row["x"] for row in cli("rows", "shop.best", "--json").json] == [0.1, 1.1, 2.1]
    with closing(sqlite3.connect(tmp_path / ".keyfold" / "shop" / "views.db")) as view, view:
        view.execute("UPDATE sums SET n = 7 WHERE k = 'a'")
    assert cli("rebuild", "shop.py").code == 2
    assert cli("rebuild", "shop.py", "sums", "--view", "--partial").code == 2
    assert cli("rebuild", "shop.py", "sums", "--view", "--with-readers").code == 2
    again = cli("rebuild", "shop.py", "sums", "minutes", "--view", "--json")
    assert again.code == 0, again.err
    assert (again.json["what"], again.json["keys"]) == ("rebuild", {"sums": 3, "minutes": 9})
    assert [row["n"] for row in cli("rows", "shop.sums", "--json").json] == [3, 3, 3]
    assert len(cli("rows", "shop.minutes", "--json").json) == 9
    anew = cli("rebuild", "shop.py", "sums", "--json")
    assert anew.code == 0, anew.err
    assert anew.json["effects"] == {"sums": ["rows of orders from its log"]}
    assert [row["n"] for row in cli("rows", "shop.sums", "--json").json] == [3, 3, 3]
    # A batch that the log does not have, and no input after it.
    assert cli("rescale", "shop.sums", "3").code == 0
    assert cli("run", "shop.py", "--drain").code == 0
    assert [row["n"] for row in cli("rows", "shop.sums", "--json").json] == [3, 3, 3]
    sums = cli("verify", "shop.py", "sums", "--json")
    assert sums.code == 0, sums.err
    (found,) = sums.json["tables"]
    assert (found["compared"], found["state"]["compared"], found["equal"]) == (True, True, True)
    for file in home.glob("views.db*"):
        file.unlink()
    without = cli("verify", "shop.py", "sums", "--json")
    assert without.code == 1
    assert without.json["tables"][0]["state"] == {
        "compared": False,
        "why": "the table has no view",
        "hint": "start the app, which repairs it, and stop it (keyfold run APP.py --drain)",
    }


def test_closed_windows_that_only_the_view_has_are_counted_and_the_rest_is_compared(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "shop.py", APP)
    (tmp_path / "data").mkdir()
    lines = [f'{{"k": "{k}", "x": 1, "t": "2026-01-01T00:0{m}:00Z"}}\n' for k in "abc" for m in range(3)]
    write(tmp_path / "data" / "0.json", "".join(lines))
    assert cli("run", "shop.py", "--drain").code == 0
    home = AppHome(tmp_path / ".keyfold" / "shop")
    # As a running app does, some batches later.
    forget_changes(TableLog(home.table("minutes").log_files), 0)
    told = cli("verify", "shop.py")
    assert told.code == 0, told.err
    assert "equal; 6 of closed windows not compared" in told.out
    assert (
        "minutes: not compared with its log: the log does not have all changes of the table; its 6 rows of "
        "closed windows have no other record; keep=... retains them"
    ) in told.err
    found = {one["table"]: one for one in cli("verify", "shop.py", "--json").json["tables"]}
    assert {name: one["closed_not_compared"] for name, one in found.items()} == {
        "sums": 0,
        "minutes": 6,
        "finals": 0,
        "best": 0,
    }
    with closing(sqlite3.connect(home.path / "views.db")) as view, view:
        view.execute("UPDATE minutes SET n = 7 WHERE window_start = (SELECT max(window_start) FROM minutes)")
    wrong = cli("verify", "shop.py", "minutes", "--json")
    assert (wrong.code, len(wrong.json["tables"][0]["state"]["differences"])) == (1, 3), "open windows"


def test_the_view_of_a_pattern_is_rebuilt_from_a_log_that_has_all_matches(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cards.py", PATTERN)
    assert cli("run", "cards.py", "--drain").code == 0
    before = cli("rows", "cards.seen", "--json").json
    assert [row["k"] for row in before] == ["a"]
    with closing(sqlite3.connect(tmp_path / ".keyfold" / "cards" / "views.db")) as view, view:
        view.execute("DELETE FROM seen")
    assert cli("rows", "cards.seen", "--json").json == []
    again = cli("rebuild", "cards.py", "seen", "--view", "--json")
    assert again.code == 0, again.err
    assert again.json["keys"] == {"seen": 1}
    assert cli("rows", "cards.seen", "--json").json == before
