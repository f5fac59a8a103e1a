"""Surgery on one key: state, view, tables of tables and log agree afterwards, whatever was killed when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.operations import unfinished
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import surgery as key_surgery
from keyfold.errors import BadOption, QueryError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_resize import at

pytestmark = pytest.mark.jvm
FILE = """
import keyfold as kf
app = kf.App("kinds")
rows = app.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t", late="1 hour")
rows.by("k").table("sums", n="count(*)", total="sum(x)")
kf.Table(app, "sums").changes().by("n").table("sizes", keys="count(*)", total="sum(total)")
rows.by("k").tumbling("10 seconds").table("windows", n="count(*)")
two = kf.step("a", "x = 1") >> kf.step("b", "x = 9")
once = rows.distinct("k", "x", within="1 hour")
once.by("k").pattern("matches", two, within="1 hour", returns={"y": "b.x"})
"""
TABLES = ("sums", "sizes", "windows")


class Killed(BaseException):
    pass


def app() -> kf.App:
    names: dict[str, Any] = {}
    exec(FILE, names)
    found: kf.App = names["app"]
    return found


def push(d: Driver, second: int, x: int, keys: str) -> None:
    d.push("rows", [{"k": k, "x": x, "t": at(second)} for k in keys])


def seen(d: Driver) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sorted(tuple(row.values()) for row in d.rows(table)) for table in TABLES}


def delete(home: AppHome, table: str, key: str) -> dict[str, Any]:
    spark = shared_session()
    with key_surgery.begin(spark, home, table, [key], "a test", lambda _: None, silent) as surgery:
        return key_surgery.delete(surgery)


def test_a_deleted_key_is_gone_everywhere_and_starts_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, file = tmp_path / "home", tmp_path / "kinds.py"
    file.write_text(FILE)
    app_home = AppHome(home / "kinds")
    with drive(app(), home=home) as d:
        push(d, 1, 1, "abc")
        push(d, 2, 2, "ab")

    def killed_at(wanted: FaultPoint, table: str) -> None:
        def handle(point: FaultPoint, facts: dict[str, Any]) -> None:
            if point == wanted:
                raise Killed

        with handled_by(handle), pytest.raises(Killed):
            delete(app_home, table, "a")

    with pytest.raises(QueryError, match="has no such key"):
        delete(app_home, "sums", "zz")
    with pytest.raises(BadOption, match="the key of kinds"):
        key_surgery.key_of(app_home, "sums", ["a", "b"])
    killed_at(FaultPoint.REWRITE_READY, "sums")
    unfinished.finish(app_home)
    assert main(["state", "read", "kinds.sums", "--key", "a", "--home", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"k": "a", "n_count": 2, "total_sum": 3}]
    killed_at(FaultPoint.REWRITE_RECORDED, "sums")
    unfinished.finish(app_home)
    killed_at(FaultPoint.REWRITE_TABLE_DONE, "windows")
    delete(app_home, "matches", "a")
    assert main(["state", "read", "kinds.sums", "--key", "a", "--home", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []
    words = [
        "state",
        "put",
        str(file),
        "sums",
        "b",
        "n_count=7",
        "total_sum=70",
        "--home",
        str(home),
        "--json",
    ]
    assert main(words) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["changes"], done["key"]) == (1, {"k": "b"})
    assert main(["get", "kinds.sums", "b", "--home", str(home), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 7
    for bad, text in (("n_count=x", "is bigint"), ("m=1", "has no column m"), ("n", "no column=value")):
        assert main(["state", "put", str(file), "sums", "b", bad, "--home", str(home)]) == 2
        assert text in capsys.readouterr().err
    assert main(["state", "put", str(file), "windows", "b", "closed=1", "--home", str(home)]) == 2
    assert main(["verify", str(file), "--home", str(home), "--json"]) == 0
    capsys.readouterr()

    with drive(app(), home=home) as d:
        push(d, 3, 9, "ab")
        now = seen(d)
        # Matches wait for the watermark.
        push(d, 8000, 0, "z")
        matches = [row["k"] for row in d.rows("matches")]
    whats = [one["what"] for one in audit.entries(app_home.storage) if one["what"] != "savepoint"]
    assert whats == ["state delete", "state delete", "state delete", "state put"]
    assert [row[:3] for row in now["sums"]] == [("a", 1, 9), ("b", 8, 79), ("c", 1, 1)]
    # What a fold of the rows of `sums` as they are now says.
    assert now["sizes"] == [(1, 2, 10), (8, 1, 79)]
    assert [(row[0], row[-1]) for row in now["windows"]] == [("a", 1), ("b", 3), ("c", 1)]
    # The partial match of `a` is gone, that of `b` has become one.
    assert matches == ["b"]
