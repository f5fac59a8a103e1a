"""The kernel's bounded memory: what happens when a bound is reached must not be seen in the results."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import HomeUnusable, StateMismatch
from keyfold.testing import drive

pytestmark = pytest.mark.jvm
ROWS = [
    {"id": str(i), "k": f"key-{i % 23:03d}", "x": i, "at": f"2026-01-01T00:{i % 60:02d}:00Z"}
    for i in range(400)
]
TINY = {"spark.keyfold.combineEntries": "3", "spark.keyfold.gatherBytes": "2000"}


def app(rows: list[dict[str, Any]] | None = None) -> kf.App:
    one = kf.App("bounds")
    source = kf.files("nowhere") if rows is None else kf.rows(rows)
    events = one.stream("events", source, schema="id string, k string, x bigint, at timestamp", time="at")
    events.by("k").table("flat", n="count(*)", total="sum(x)", low="min(x)", mean="avg(x)", ttl="30 days")
    events.by("k").table("objects", ids="count(distinct id)", last="max(id)", middle="percentile(x, 0.5)")
    return one


def expected() -> dict[str, tuple[Any, ...]]:
    found: dict[str, list[int]] = {}
    for row in ROWS:
        found.setdefault(str(row["k"]), []).append(int(str(row["x"])))
    return {k: (len(x), sum(x), min(x), sum(x) / len(x), max(map(str, x))) for k, x in found.items()}


def seen(d: Any) -> dict[str, tuple[Any, ...]]:
    flat, objects = ({r["k"]: r for r in d.rows(t)} for t in ("flat", "objects"))
    assert {k: r["ids"] for k, r in objects.items()} == {k: r["n"] for k, r in flat.items()}
    return {k: (r["n"], r["total"], r["low"], r["mean"], objects[k]["last"]) for k, r in flat.items()}


def test_bounds_that_are_reached_all_the_time_change_no_result() -> None:
    with drive(app(), spark=TINY) as d:
        for start in range(0, 400, 200):
            d.push("events", ROWS[start : start + 200])
        assert seen(d) == expected()
        assert len([c for c in d.changes("flat") if c["_op"] == "upsert"]) == 2 * 23
        d.crash()
        assert seen(d) == expected()


def test_an_overflow_where_states_are_gathered_rejects_the_lesser_part(tmp_path: Path) -> None:
    most = 2**63 - 1
    for settings in ({}, TINY):
        with drive(app(), spark=settings) as d:
            d.push("events", [{"id": "1", "k": "a", "x": most}])
            d.push("events", [{"id": "2", "k": "a", "x": 1}, {"id": "3", "k": "b", "x": 1}])
            assert {r["k"]: r["total"] for r in d.rows("flat")} == {"a": most, "b": 1}
            (refused,) = d.rejected("flat")
            assert "overflow" in refused["reason"].lower()


def test_a_view_that_is_behind_is_rebuilt_from_the_state(tmp_path: Path) -> None:
    with drive(app(), home=tmp_path) as d:
        d.push("events", ROWS[:200])
    with drive(app(), home=tmp_path, views="none") as d:
        d.push("events", ROWS[200:])
    with drive(app(), home=tmp_path) as d:
        assert seen(d) == expected()
    (tmp_path / "bounds" / "views.db").unlink()
    with drive(app(), home=tmp_path) as d:
        assert seen(d) == expected()
        d.push("events", [{"id": "x", "k": "new", "x": 1}])
        assert len(d.rows("flat")) == 24


def test_a_view_whose_state_is_gone_is_refused(tmp_path: Path) -> None:
    with drive(app(), home=tmp_path) as d:
        d.push("events", ROWS[:5])
        d.push("events", ROWS[5:9])
    shutil.rmtree(tmp_path / "bounds" / "tables" / "flat" / "checkpoint")
    with pytest.raises(HomeUnusable, match="its checkpoint is missing"), drive(app(), home=tmp_path):
        pass


def test_rows_of_a_declaration_may_grow_and_not_change(tmp_path: Path) -> None:
    from keyfold.engine.start import start
    from keyfold.testing import shared_session

    def run(rows: list[dict[str, Any]]) -> dict[str, int]:
        with start(app(rows).spec(), spark=shared_session(), home=tmp_path) as handle:
            handle.drain()
            return {r["k"]: r["n"] for r in handle.table("flat").rows()}

    assert sum(run(ROWS[:30]).values()) == 30
    assert sum(run(ROWS[:50]).values()) == 50
    with pytest.raises(StateMismatch, match="add rows at the end only"):
        run([*ROWS[:29], {**ROWS[29], "x": -1}, *ROWS[30:50]])
    assert sum(run(ROWS[:50]).values()) == 50


def test_a_definition_that_never_ran_may_be_changed(tmp_path: Path) -> None:
    with drive(app(), home=tmp_path):
        pass
    other = kf.App("bounds")
    events = other.stream("events", kf.files("nowhere"), schema="id string, k string, x bigint, at timestamp")
    events.by("k").table("flat", other="max(x)")
    with drive(other, home=tmp_path) as d:
        d.push("events", ROWS[:3])
        assert len(d.rows("flat")) == 3


def test_a_key_that_is_no_text_is_rejected() -> None:
    bytes_as_text = kf.App("garbled")
    events = bytes_as_text.stream("events", kf.files("nowhere"), schema="b binary, x int")
    events.by(k="cast(b as string)").table("t", n="count(*)", some="any_value(cast(b as string))")
    with drive(bytes_as_text) as d:
        d.push("events", [{"b": b"\xff\xfe"}, {"b": b"fine"}, {"b": b"\xff\xfe"}])
        assert [r["k"] for r in d.rows("t")] == ["fine"]
        assert {r["reason"] for r in d.rejected("t")} == {"key k is not valid UTF-8"}
        assert len(d.rejected("t")) == 2
