"""What a changed definition means for the state on disk, from what is recorded of both."""

from __future__ import annotations

from typing import Any, cast

import pytest

import keyfold as kf
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery.definition_changes import (
    Readers,
    TableChange,
    compare,
    readers_of,
    removed_tables,
    rename,
)
from keyfold.engine.state.mapping import widens
from keyfold.engine.storage.stored_app import StoredApp, StoredTable
from keyfold.plan.nodes import TableSpec

BASE = {
    "key:k": "`k`",
    "key:r": "`r`",
    "column:n": "count(1)",
    "reads:k": "STRING",
    "keys": "k, r",
    "columns": "n",
}
NOBODY = Readers()
COUNT = {"name": "n_count", "of": "count(1) count", "type": "BIGINT"}
MEAN = [
    {"name": "m_sum", "of": "avg(`x`) sum", "type": "DOUBLE"},
    {"name": "m_count", "of": "avg(`x`) count", "type": "BIGINT"},
]


def layout(*fields: dict[str, str], kind: str = "running", **columns: list[str]) -> dict[str, Any]:
    keys = [{"name": name, "type": "STRING"} for name in "kr"]
    return {
        "kind": kind,
        "merges": True,
        "keys": keys,
        "fields": list(fields),
        "columns": columns or {"n": ["n_count"]},
    }


def table(**options: Any) -> TableSpec:
    app = kf.App("shop")
    rows = app.stream("rows", kf.rows([]), "k string, r string, x int, t timestamp", time="t")
    return rows.by("k", "r").table("t", n="count(*)", **options).spec


def change(
    old: dict[str, str],
    new: dict[str, str],
    *,
    before: dict[str, Any] | None = None,
    now: dict[str, Any] | None = None,
    spec: TableSpec | None = None,
    readers: Readers = NOBODY,
    operators: int = 1,
) -> TableChange:
    entry = StoredTable(meaning=BASE | old, layout=before if before is not None else layout(COUNT))
    compiled = Compiled(
        spec or table(),
        cast(Any, None),
        {},
        "null",
        cast(Any, None),
        True,
        None,
        layout=now or layout(COUNT),
    )
    return compare(entry, BASE | new, compiled, readers, operators)


def test_what_state_does_not_depend_on_takes_effect_at_the_next_start() -> None:
    assert change({}, {}).kind == "same"
    assert change({"ttl": "1 ms"}, {"ttl": "2 ms"}).kind == "compatible"
    for window in ("tumbling 1 minute", "sliding 1 hour every 5 minutes"):
        old, new = ({"window": window, "emit": emit} for emit in ("changes", "final"))
        assert change(old, new).kind == change(new, old).kind == "compatible"
    old, new = ({"window": "session 1 minute", "emit": emit} for emit in ("changes", "final"))
    assert change(new, old).kind == "compatible"
    assert change({"reads:x": "INT"}, {"reads:x": "BIGINT"}).kind == "compatible"


def test_columns_follow_what_their_aggregates_are_of() -> None:
    added = change(
        {},
        {"column:m": "avg(`x`)", "columns": "n, m"},
        now=layout(COUNT, *MEAN, n=["n_count"], m=["m_sum", "m_count"]),
    )
    assert (added.kind, added.effects) == ("migratable", ("m: starts empty",))
    assert added.mapping is not None
    assert [one.copied for one in added.mapping.fields] == ["n_count", None, None]
    wide = change(
        {"column:top": "max(`x`)", "reads:x": "INT"},
        {"column:top": "max(`x`)", "reads:x": "BIGINT"},
        before=layout({"name": "top_max", "of": "max(`x`) max", "type": "INT"}),
        now=layout({"name": "top_max", "of": "max(`x`) max", "type": "BIGINT"}, top=["top_max"]),
    )
    assert (wide.kind, wide.effects) == ("migratable", ("top_max: INT becomes BIGINT",))


def test_a_join_before_the_table_keeps_its_rows() -> None:
    app = kf.App("shop")
    rows, other = (
        app.stream(name, kf.rows([]), "k string, r string, x int, t timestamp", time="t")
        for name in ("rows", "other")
    )
    joined = rows.join(other.select("k", "t"), on="k", within="1 hour").by("k", "r")
    spec = joined.table("t", n="count(*)").spec
    assert change({"ttl": "1 ms"}, {}, spec=spec, operators=2).kind == "migratable"
    assert change({"ttl": "1 ms"}, {}, spec=spec, operators=3).kind == "incompatible"
    types = {"2:joined:rows": "k string, x int"}
    wide = change({"reads:x": "INT", **types}, {"reads:x": "BIGINT", "2:joined:rows": "k string, x bigint"})
    assert wide.kind == "incompatible"
    assert wide.effects[0].startswith("2 joined rows: k string, x int on disk, k string, x bigint now")
    # A home of an earlier version does not say what types its joins have.
    assert change({}, types, spec=spec, operators=2).kind == "same"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (change({"where:0": "(`x` > 0)"}, {"where:0": "(`x` > 1)"}), "where 0: (`x` > 0) on disk"),
        (change({}, {"window": "tumbling 10 seconds"}), "window: nothing on disk"),
        (change({"time:rows": "t"}, {"time:rows": "u"}), "time rows"),
        (change({}, {"columns": "n, m"}, before=layout(kind="other")), "retained rows"),
        (change({}, {"columns": "n, m"}, before={}), "start the app once with the old definition"),
        (change({"ttl": "1 ms"}, {}, operators=2), "its query also keeps the state of"),
        (
            change(
                {},
                {"column:m": "(avg(`x`) / count(1))", "columns": "n, m"},
                now=layout(COUNT, *MEAN, n=["n_count"], m=["m_sum", "m_count", "n_count"]),
            ),
            "m: avg(`x`) would start empty and count(1) would continue",
        ),
        (
            change(
                {"column:top": "max(`x`)"},
                {"column:top": "max(`x`)", "reads:x": "INT"},
                before=layout({"name": "top_max", "of": "max(`x`) max", "type": "BIGINT"}),
                now=layout({"name": "top_max", "of": "max(`x`) max", "type": "INT"}, top=["top_max"]),
            ),
            "top_max: INT can't hold",
        ),
        (
            change(
                {"window": "tumbling 1 minute", "emit": "changes"},
                {"window": "tumbling 1 minute", "emit": "final"},
                readers=Readers(("r",)),
            ),
            "emit: its rows have been read by r",
        ),
        (
            change(
                {"window": "session 1 minute", "emit": "changes"},
                {"window": "session 1 minute", "emit": "final"},
            ),
            "emit: open sessions would stay in the view",
        ),
        (
            change({}, {"columns": "n, m"}, readers=Readers(("r",), ("r",))),
            "its rows, with their columns, are in the state of r",
        ),
        (
            change({"column:n": "sum(1)"}, {}, readers=Readers(("r",))),
            "n: the old values have been folded by r",
        ),
    ],
)
def test_what_state_has_not_can_not_be_made_up_for(found: TableChange, why: str) -> None:
    assert found.kind == "incompatible"
    assert any(why in effect for effect in found.effects), found.effects


def test_a_ttl_that_comes_or_goes_is_a_migration_and_brings_its_time_along() -> None:
    found = change({}, {"ttl": "1 ms", "time:rows": "t"})
    assert (found.kind, found.effects) == (
        "migratable",
        ("ttl: existing keys count as seen when the app next runs",),
    )


def test_a_fold_with_another_state_needs_a_migrate() -> None:
    fold = {"zero": {"v": "0L"}, "update": {"v": "state.v + x"}}
    field = {"name": "f_v", "of": "fold f.v", "type": "BIGINT"}
    one = {"before": layout(field), "now": layout(field, f=["f_v"])}
    texts = [f"fold zero(0L) update(state.v + {part}) merge() result(state.v)" for part in ("`x`", "1")]
    meanings = [{"column:f": text} for text in texts]
    refused = change(*meanings, **one, spec=table(f=kf.fold(**fold)))  # type: ignore[arg-type]
    assert refused.kind == "incompatible"
    assert "migrate={...}" in refused.effects[0]
    allowed = change(*meanings, **one, spec=table(f=kf.fold(**fold, migrate={"v": "state.v * 2"})))  # type: ignore[arg-type]
    assert allowed.kind == "migratable"
    assert allowed.mapping is not None
    assert allowed.mapping.fields[0].expression == "state.v * 2"
    assert allowed.mapping.fields[0].names == ("v",)
    # A result is computed from the state, and not part of it.
    other_result = [meanings[0], {"column:f": texts[0].replace("result(state.v)", "result(-state.v)")}]
    found = change(*other_result, **one, spec=table(f=kf.fold(**fold)))  # type: ignore[arg-type]
    assert found.effects[0] == "f: computed from the existing state"


def test_a_renamed_table_must_not_be_read_by_its_old_name() -> None:
    found = rename(TableChange("new", "same"), "old", Readers())
    assert (found.kind, found.was, found.effects) == ("migratable", "old", ("renamed from old",))
    assert rename(TableChange("new", "same"), "old", Readers(("r",))).kind == "incompatible"


def test_readers_and_removed_tables_are_those_of_the_home_too() -> None:
    app = kf.App("shop")
    rows = app.stream("rows", kf.rows([]), "k string")
    first = rows.by("k").table("first", n="count(*)")
    first.changes().by("k").table("second", n="count(*)")
    stored = StoredApp({"third": StoredTable(tables=("first",)), "first": StoredTable()})
    assert readers_of(app.spec(), stored, "first").names == ("second", "third")
    assert [one.table for one in removed_tables(app.spec(), stored, [])] == ["third"]
    assert removed_tables(app.spec(), stored, [TableChange("x", "migratable", was="third")]) == []


def test_types_widen_only_where_every_value_stays_what_it_was() -> None:
    for old, new in (("INT", "DOUBLE"), ("INT", "DECIMAL(10,0)"), ("DECIMAL(5,2)", "DECIMAL(7,2)")):
        assert widens(old, new)
    for old, new in (
        ("BIGINT", "DOUBLE"),
        ("BIGINT", "INT"),
        ("INT", "STRING"),
        ("DECIMAL(5,2)", "DECIMAL(5,3)"),
    ):
        assert not widens(old, new)
