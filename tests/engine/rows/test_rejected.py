"""Rows that can't be used: kept with reason and text, wherever the error stands; nothing else is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import QueryFailed
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

SCHEMA = "k string, x string, y int, z bigint"
BIG = 2**63 - 1


def raws(d: Driver, name: str) -> list[Any]:
    """The rejected rows of a stream or table as they were sent."""
    return [json.loads(r["raw"]) for r in d.rejected(name)]


def reasons(d: Driver, name: str) -> list[str]:
    return [r["reason"] for r in d.rejected(name)]


def only(d: Driver, table: str) -> dict[str, Any]:
    found = d.rows(table)
    assert len(found) == 1
    return found[0]


def casts() -> kf.App:
    """The same cast in every place where an expression can stand."""
    app = kf.App("casts")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    cast = "cast(x as int)"
    rows.where(f"{cast} > 0").by("k").table("in_where", n="count(*)")
    rows.select("*", v=cast).by("k").table("in_select", n="count(*)")
    rows.by("k", v=cast).table("in_by", n="count(*)")
    rows.by("k").table("in_argument", n="count(*)", total=f"sum({cast})")
    rows.by("k").table("in_filter", n="count(*)", positive=f"count(*) filter (where {cast} > 0)")
    rows.by("k").table("in_typed", n="count(*)", seen=f"collect_set({cast})")
    rows.by("k").table(
        "in_fold", total=kf.fold(zero={"v": "0"}, update={"v": f"state.v + {cast}"}), n="count(*)"
    )
    return app


def test_a_cast_that_fails_on_one_row_sets_that_row_aside_wherever_it_stands() -> None:
    with drive(casts()) as d:
        names = [t.name for t in d.handle.spec.tables]
        d.push("rows", [{"k": "a", "x": "1"}, {"k": "a", "x": "oops", "z": 7}, {"k": "a", "x": "2"}])
        d.push("rows", [{"k": "a", "x": "oops again"}])
        d.crash()
        sent = [
            {"k": "a", "x": "oops", "y": None, "z": 7},
            {"k": "a", "x": "oops again", "y": None, "z": None},
        ]
        for name in names:
            assert len(reasons(d, name)) == 2, name
            for reason in reasons(d, name):
                assert "CAST_INVALID_INPUT" in reason
                assert "cast(x as int)" in reason
                assert "'oops" in reason
                assert "spark." not in reason
                assert "SQLSTATE" not in reason
        assert only(d, "in_where") == {"k": "a", "n": 2}
        assert only(d, "in_select") == {"k": "a", "n": 2}
        assert d.rows("in_by") == [{"k": "a", "v": 1, "n": 1}, {"k": "a", "v": 2, "n": 1}]
        assert only(d, "in_argument") == {"k": "a", "n": 2, "total": 3}
        assert only(d, "in_filter") == {"k": "a", "n": 2, "positive": 2}
        assert only(d, "in_fold") == {"k": "a", "n": 2, "total": 3}
        typed = only(d, "in_typed")
        assert typed["n"] == 2
        assert sorted(typed["seen"]) == [1, 2]
        for name in names:
            assert raws(d, name) == sent, f"the rejected rows of {name} are whole"
        assert raws(d, "rows") == sent, "refused by seven tables, listed once"


def test_a_row_that_a_filter_leaves_out_is_not_evaluated() -> None:
    app = kf.App("lazy")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    number = "x rlike '^[0-9]+$'"
    rows.by("k").table(
        "filtered",
        total=f"sum(cast(x as int)) filter (where {number})",
        seen=f"collect_set(cast(x as int)) filter (where {number})",
        most=f"max_by(x, cast(x as int)) filter (where {number})",
    )
    rows.where(number).where("cast(x as int) > 0").by("k").table("chained", n="count(*)")
    rows.where(number).select("k", v="cast(x as int)").by("k").table("selected", total="sum(v)")
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": "1"}, {"k": "a", "x": "none"}, {"k": "a"}])
        assert only(d, "filtered") == {"k": "a", "total": 1, "seen": [1], "most": "1"}
        assert only(d, "chained") == {"k": "a", "n": 1}
        assert only(d, "selected") == {"k": "a", "total": 1}
        assert d.rejected("rows") == []


def test_null_keys_and_lines_that_are_no_rows_are_counted_each() -> None:
    app = kf.App("keys")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    rows.by("k", "y").table("two", n="count(*)")
    rows.by(name="upper(k)").table("named", last=kf.fold(zero={"x": "''"}, update={"x": "x"}))
    with drive(app) as d:
        broken = ['{"k": "a', "no json", '{"k": "a", "y": "seven"}', "[1, 2"]
        d.push(
            "rows", [{"k": "a", "y": 1}, {"k": None, "y": 1}, {"k": None, "y": 1}, {"k": "a"}, {}, *broken]
        )
        assert only(d, "two") == {"k": "a", "y": 1, "n": 1}
        told = ["does not parse"] * 3 + ['does not parse: column y: "seven" is not a valid int']
        assert sorted(reasons(d, "two")) == sorted([*told, *["key k is null"] * 3, "key y is null"])
        assert sorted(reasons(d, "named")) == sorted([*told, *["key name is null"] * 3])
        found = {r["raw"]: r.get("cause", "") for r in d.rejected("rows") if r["reason"] in told}
        assert found.keys() == set(broken)
        assert found["no json"].startswith("malformed JSON: Unrecognized token 'no'")
        assert not any("file" in r for r in d.rejected("rows")), "they came from none of the user's"
        assert len(d.rejected("rows")) == 8, "two equal rows are two"
        # Another two of the same, in another batch, and one that only one of the tables refuses.
        d.push("rows", ["no json", "no json", {"k": "b"}])
        d.crash()
        assert len(d.rejected("rows")) == 11
        assert d.handle.status()["tables"]["two"]["rejected"] == 11
        assert d.handle.status()["tables"]["named"]["rejected"] == 9


def test_an_overflow_and_a_division_by_zero_leave_the_state_as_it_was() -> None:
    app = kf.App("numbers")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    rows.by("k").table("sums", n="count(*)", total="sum(z)")
    rows.by("k").table("rates", rate="sum(z) / sum(y)", n="count(*)")
    rows.by("k").table(
        "folds",
        total=kf.fold(zero={"v": "0L"}, update={"v": "state.v + z"}),
        inverse=kf.fold(zero={"v": "0L"}, update={"v": "state.v + y"}, result="1L div state.v"),
    )
    with drive(app) as d:
        d.push("rows", [{"k": "a", "z": BIG, "y": 1}, {"k": "b", "z": 1, "y": 1}])
        d.push("rows", [{"k": "a", "z": 1, "y": 1}])
        d.push("rows", [{"k": "a", "z": -5, "y": 0}])
        assert d.get("sums", "a")["n"] == 2  # type: ignore[index]
        assert d.get("sums", "a")["total"] == BIG - 5  # type: ignore[index]
        assert len(reasons(d, "sums")) == 1
        assert "overflow" in reasons(d, "sums")[0].lower()
        assert d.get("folds", "a")["total"] == BIG - 5  # type: ignore[index]
        assert len(reasons(d, "folds")) == 1
        assert raws(d, "folds") == [{"k": "a", "x": None, "y": 1, "z": 1}]
        assert "try_" not in reasons(d, "folds")[0], (
            "advice about functions is of no use to who reads the row"
        )

        # A result that can't be computed refuses the rows that led to it, and the old result stays.
        d.push("rows", [{"k": "b", "z": 1, "y": -1}])
        for table in ("rates", "folds"):
            assert "DIVIDE_BY_ZERO" in reasons(d, table)[-1]
        assert d.get("rates", "b")["rate"] == 1.0  # type: ignore[index]
        assert d.get("folds", "b")["inverse"] == 1  # type: ignore[index]
        assert d.get("sums", "b")["total"] == 2  # type: ignore[index]
        d.crash()
        d.push("rows", [{"k": "b", "z": 3, "y": 1}])
        assert d.get("rates", "b")["rate"] == 2.0  # type: ignore[index]
        assert [len(d.rejected(table)) for table in ("sums", "rates", "folds")] == [1, 2, 2]


def test_a_row_is_rejected_once_even_if_the_result_fails_after_it() -> None:
    app = kf.App("result")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    rows.by("k").table(
        "folds",
        share=kf.fold(zero={"v": "0"}, update={"v": "state.v + cast(x as int)"}, result="100 div state.v"),
    )
    with drive(app) as d:
        d.push("rows", [{"k": "a", "x": "4"}])
        d.push("rows", [{"k": "a", "x": "oops"}, {"k": "a", "x": "-4"}])
        assert d.rows("folds") == [{"k": "a", "share": 25}]
        assert sorted(r["x"] for r in raws(d, "folds")) == ["-4", "oops"]


def test_two_rows_of_a_batch_that_overflow_together_are_both_accounted_for() -> None:
    app = kf.App("together")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    rows.by("k").table("sums", n="count(*)", total="sum(z)", partitions=1)
    with drive(app) as d:
        d.push("rows", [{"k": "a", "z": BIG}, {"k": "a", "z": 5}, {"k": "a", "z": -1}])
        found = only(d, "sums")
        assert found["n"] + len(d.rejected("sums")) == 3
        assert raws(d, "sums") == [{"k": "a", "x": None, "y": None, "z": 5}]
        assert found["total"] == BIG - 1


@pytest.mark.parametrize(
    ("expression", "named"),
    [("sum(cast(x as int))", "cast(x as int)"), ("sum(z) / sum(y)", "sum(z) / sum(y)")],
    ids=["row", "result"],
)
def test_on_error_fail_stops_with_the_expression_and_reject_takes_it_from_there(
    tmp_path: Path, expression: str, named: str
) -> None:
    def app(on_error: Any) -> kf.App:
        app = kf.App("strict")
        rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
        rows.by("k").table("sums", n="count(*)", total=expression, on_error=on_error)
        return app

    with drive(app("fail"), home=tmp_path) as d:
        d.push("rows", [{"k": "a", "x": "1", "y": 1, "z": 1}])
        bad = {"k": "a", "x": "oops", "y": -1, "z": 1}
        with pytest.raises(QueryFailed) as stopped:
            d.push("rows", [bad, {"k": "b", "x": "2", "y": 1, "z": 1}])
        error = stopped.value
        assert (error.app, error.table, error.batch) == ("strict", "sums", 1)
        assert named in str(error)
        assert '"oops"' in str(error) or named.startswith("sum"), "the row is shown"
        assert "org.apache" not in str(error)
        assert "reject" in (error.hint or "")
        assert [(r["k"], r["n"]) for r in d.rows("sums")] == [("a", 1)], "reading still works"
        # Nothing was skipped: the same batch fails again.
        with pytest.raises(QueryFailed):
            d.restart()

    with drive(app("reject"), home=tmp_path) as d:
        assert [(r["k"], r["n"]) for r in d.rows("sums")] == [("a", 1), ("b", 1)]
        assert len(d.rejected("sums")) == 1


def test_a_null_key_and_a_broken_line_stop_a_strict_table_too() -> None:
    app = kf.App("strict")
    rows = app.stream("rows", kf.rows([]), schema=SCHEMA)
    rows.by("k").table("sums", n="count(*)", on_error="fail")
    lines: list[Any] = [{"y": 1}, "no json"]
    for line, words in zip(lines, ("key k is null", "does not parse"), strict=True):
        with drive(app) as d, pytest.raises(QueryFailed, match=words):
            d.push("rows", [line])


def test_a_stream_of_a_union_lists_its_own_rejected_rows() -> None:
    app = kf.App("both")
    a = app.stream("a", kf.rows([]), schema="k string, x int")
    b = app.stream("b", kf.rows([]), schema="k string, x int")
    a.union(b).by("k").table("t", n="count(*)")
    with drive(app) as d:
        d.push("a", ["{a"])
        d.push("b", ["{b", {"k": None}])
        assert [r["raw"] for r in d.rejected("a") if r["reason"] == "does not parse"] == ["{a"]
        assert [r["raw"] for r in d.rejected("b") if r["reason"] == "does not parse"] == ["{b"]
        assert len(d.rejected("t")) == 3


def test_of_many_rejected_rows_some_are_kept_and_all_are_counted() -> None:
    app = kf.App("bad")
    rows = app.stream("rows", kf.rows([]), schema="k string, x int")
    rows.by("k").table("sums", total="sum(x)")
    chain = kf.fold(zero={"x": "0"}, update={"x": "state.x + x"})
    rows.where("x is not null").by("k").table("folds", chain=chain)
    rows.distinct("x", within="1 day").by("k").table("steps", n="count(*)")
    few = {"spark.keyfold.rejectedRows": "3"}
    with drive(app, spark=few) as d:
        lines = [{"k": None, "x": 100 + n} for n in range(40)] + ["{" for _ in range(10)]
        d.push("rows", [{"k": "a", "x": 1}, *lines, {"k": "a", "x": 2}])
        for table, total in (("sums", 50), ("folds", 50), ("steps", 50)):
            assert d.handle.status()["tables"][table]["rejected"] == total, table
            kept = d.rejected(table)
            assert 3 <= len(kept) <= 6, "three of each task"
            assert all(row["raw"] for row in kept)
            manifest = d.handle.hooks[table].log.find(0)
            assert manifest is not None
            assert sorted(reason.rows for reason in manifest.reasons) == [10, 40]
        assert d.rows("sums") == [{"k": "a", "total": 3}]
        d.push("rows", ["{"])
        assert d.handle.status()["tables"]["sums"]["rejected"] == 51
