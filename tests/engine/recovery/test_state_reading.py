"""Reading state: columns by name for every kind of table, at a batch or savepoint; differences; history."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.cli.main import main
from keyfold.engine.savepoint.deletion import Deletion
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import Driver, drive, shared_session
from tests.engine.recovery.test_resize import at
from tests.process.test_process import Total

pytestmark = pytest.mark.jvm
SCHEMA = "k string, x int, t timestamp"


def app() -> kf.App:
    made = kf.App("kinds")
    rows = made.stream("rows", kf.rows([]), schema=SCHEMA, time="t", late="1 second")
    rows.by("k").table("sums", n="count(*)", mean="avg(x)", seen="collect_set(x)", history="1 day")
    rows.by("k").sliding("20 seconds", every="10 seconds").table("hops", n="count(*)", keep="1 hour")
    rows.by("k").session("10 seconds").table("visits", total="sum(x)")
    rows.by("k").top(2, by="x desc").table("top", x="x")
    named = made.stream("names", kf.rows([]), schema="k string, name string")
    names = named.by("k").table("named", name="max(name)")
    two = kf.step("a", "x = 1") >> kf.step("b", "x = 9")
    enriched = rows.enrich(names, on="k")
    enriched.by("k").pattern("matches", two, within="1 minute", returns={"at": "b.t"})
    other = made.stream("other", kf.rows([]), schema="k string, y int, t timestamp", time="t")
    once = rows.distinct("k", "x", within="1 hour")
    once.join(other, on="k", within="1 hour").by("k").table("joined", n="count(*)")
    plain = made.stream("plain", kf.rows([]), schema="k string, n bigint")
    plain.by("k").process("totals", Total, output="k string, total bigint, _op string")
    return made


def fill(d: Driver) -> None:
    d.push("names", [{"k": "a", "name": "Ada"}])
    d.push("plain", [{"k": "a", "n": 3}, {"k": "b", "n": 4}])
    d.push("rows", [{"k": k, "x": 1, "t": at(1)} for k in "ab"])
    d.push("rows", [{"k": "a", "x": 2, "t": at(12)}])


def test_every_kind_of_table_is_read_by_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with drive(app(), home=tmp_path) as d:
        fill(d)

    def command(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(["state", *words, "--home", str(tmp_path), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    def rows(table: str, **options: Any) -> list[dict[str, Any]]:
        frame = kf.read_state(f"kinds.{table}", home=str(tmp_path), spark=shared_session(), **options)
        assert "binary" not in frame.schema.simpleString()
        return sorted((row.asDict(recursive=True) for row in frame.collect()), key=str)

    def moment(second: int) -> datetime:
        return datetime.fromisoformat(at(second)).replace(tzinfo=None)

    first, _ = rows("sums")
    assert first == {"k": "a", "n_count": 2, "mean_sum": 3.0, "mean_count": 2, "seen_buf": first["seen_buf"]}
    assert first["seen_buf"].endswith(" bytes")
    assert [row["k"] for row in rows("sums", key=["b"])] == ["b"]
    panes = {(row["k"], row["pane_start"], row["n_count"]) for row in rows("hops")}
    assert panes == {("a", moment(0), 1), ("a", moment(10), 1), ("b", moment(0), 1)}
    assert [(row["k"], row["at"]) for row in rows("hops", part="timers")]
    visits = [(row["k"], row["window_start"], row["window_end"], row["total_sum"]) for row in rows("visits")]
    assert ("a", moment(12), moment(22), 2) in visits
    assert [(row["k"], row["time"], row["x"]) for row in rows("top", key=["a"])] == [
        ("a", moment(1), 1),
        ("a", moment(12), 2),
    ]
    partial = rows("matches", key=["a"])
    assert [(one["match"], one["position"], one["started"]) for one in partial] == [("partial", 0, moment(1))]
    assert [one["time"] for one in partial[0]["rows"]] == [moment(1)]
    assert {(row["k"], row["x"], row["time"]) for row in rows("joined", part="2.state")} == {
        ("a", 1, moment(1)),
        ("a", 2, moment(12)),
        ("b", 1, moment(1)),
    }
    assert {(row["k"], row["x"]) for row in rows("joined", part="1.left")} >= {("a", 2)}
    assert rows("totals", key=["a"]) == [{"k": "a", "n": 3}]
    assert any("Ada" in row.values() for row in rows("matches", part="1.state"))

    shown = command("read", "kinds.hops", "--key", "a")
    assert (shown["part"], shown["key"], len(shown["rows"])) == ("state", ["k"], 2)
    assert "timers" in shown["parts"]
    assert main(["state", "read", "kinds.sums", "--part", "stat", "--home", str(tmp_path)]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["state", "read", "kinds.sums", "--batch", "99", "--home", str(tmp_path)]) == 2
    assert "batches 0 to" in capsys.readouterr().err

    assert main(["savepoint", "create", "then", "--home", str(tmp_path)]) == 0
    with drive(app(), home=tmp_path) as d:
        d.push("rows", [{"k": "c", "x": 5, "t": at(13)}, {"k": "a", "x": 2, "t": at(13)}])
        batches = d.handle.home.table("sums").committed_batch()
    assert rows("sums", savepoint="then", key=["a"])[0]["n_count"] == 2
    for file in (tmp_path / "kinds/savepoints/then/reading/sums/checkpoint/commits").iterdir():
        file.unlink()  # as a kill in the middle leaves it
    assert rows("sums", savepoint="then", key=["a"])[0]["n_count"] == 2
    assert rows("sums", batch=0, key=["a"])[0]["n_count"] == 1
    found = command("diff", "then", "now", "kinds.sums", code=1)
    assert [(one["key"]["k"], one["change"]) for one in found["changes"]] == [
        ("a", "changed"),
        ("c", "added"),
    ]
    assert [found["changes"][0][side][0]["n_count"] for side in ("before", "after")] == [2, 3]
    assert command("diff", str(batches), "now", "kinds.sums") == {
        "table": "sums",
        "changes": [],
        "more": False,
    }
    known = command("history", "kinds.sums", "a")
    assert known["since"]["whole"]
    assert [(one["op"], one["row"]["n"]) for one in known["changes"]] == [
        ("upsert", 1),
        ("upsert", 2),
        ("upsert", 3),
    ]

    home = AppHome(tmp_path / "kinds")

    def delete(point: FaultPoint, facts: dict[str, Any]) -> None:
        # While its files get second names, for Spark to read.
        if point == FaultPoint.STORAGE_NAMED and facts["name"].startswith("state/"):
            with suppress(QueryError):
                Deletion(home, None, held=False).delete("then")

    with handled_by(delete):
        assert main(["state", "read", "kinds.hops", "--savepoint", "then", "--home", str(tmp_path)]) == 1
    assert "savepoint then of kinds was deleted or changed while it was read" in capsys.readouterr().err
