"""was= of patterns and processors: partial matches and the processor's own state go on under the new name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.storage.layout import AppHome
from keyfold.testing import drive
from tests.engine.recovery.test_migrate import migrated, planned
from tests.process.test_process import Total

pytestmark = pytest.mark.jvm


def app(matches: str, totals: str, value: int = 9, was: tuple[str, str] | None = None) -> kf.App:
    made = kf.App("shop")
    rows = made.stream("rows", kf.rows([]), schema="k string, x int, t timestamp", time="t", late="0 seconds")
    steps = kf.step("a", "x = 1") >> kf.step("b", f"x = {value}")
    rows.by("k").pattern(matches, steps, within="1 minute", returns={"x": "b[0].x"}, was=was and was[0])
    plain = made.stream("plain", kf.rows([]), schema="k string, n bigint")
    output = "k string, total bigint, _op string"
    plain.by("k").process(totals, Total, output=output, was=was and was[1])
    return made


def row(k: str, x: int, second: int) -> dict[str, Any]:
    return {"k": k, "x": x, "t": f"2026-01-01 00:00:{second:02}"}


def test_patterns_and_processors_keep_their_state_under_another_name(tmp_path: Path) -> None:
    with drive(app("matches", "totals"), home=tmp_path) as d:
        d.push("rows", [row("p", 1, 0), row("p", 9, 1), row("q", 1, 2), row("p", 3, 9)])
        d.push("plain", [{"k": "p", "n": 4}, {"k": "q", "n": 5}])
        before = {name: d.rows(name) for name in ("matches", "totals")}
    assert len(before["matches"]) == 1

    # A change beside the new name can't be made: only the rows of the past would tell.
    other = planned(app("found", "sums", 8, ("matches", "totals")), tmp_path, tmp_path / "other", "found")
    assert other.changes[0].kind == "incompatible"

    new = app("found", "sums", was=("matches", "totals"))
    plan = planned(new, tmp_path, tmp_path / "feeds")
    assert [(one.kind, one.effects) for one in plan.changes] == [
        ("migratable", ("renamed from matches",)),
        ("migratable", ("renamed from totals",)),
    ]
    migrated(plan)
    assert sorted(path.name for path in (tmp_path / "shop" / "tables").iterdir()) == ["found", "sums"]
    assert set(AppHome(tmp_path / "shop").read_plan().tables) == {"found", "sums"}
    with drive(new, home=tmp_path) as d:
        assert [values(one) for one in d.rows("found")] == [values(one) for one in before["matches"]]
        assert [values(one) for one in d.rows("sums")] == [values(one) for one in before["totals"]]
        # The partial match of q completes, and totals go on.
        d.push("rows", [row("q", 9, 10), row("p", 3, 20)])
        d.push("plain", [{"k": "p", "n": 10}])
        assert [(one["k"], one["x"]) for one in d.rows("found")] == [("p", 9), ("q", 9)]
        assert {one["k"]: one["total"] for one in d.rows("sums")} == {"p": 14, "q": 5}


def values(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in ("_batch", "_at")}
