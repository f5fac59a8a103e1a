"""What a pattern refuses once Spark has looked at it, and rows that are not in order or that fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadExpression, StateMismatch
from keyfold.testing import drive, shared_session

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "key string, kind string, amount double, at timestamp"
A, B = kf.step("a", "kind = 'a'"), kf.step("b", "kind = 'b'")


def events(key: str, *told: tuple[str, int, float]) -> list[dict[str, Any]]:
    return [
        {"key": key, "kind": kind, "amount": amount, "at": ZERO + timedelta(seconds=at)}
        for kind, at, amount in told
    ]


REFUSED: dict[str, tuple[kf.Pattern, dict[str, str], list[str]]] = {
    "a step that isn't there": (
        kf.step("probe", "amount < 5") >> kf.step("strike", "amount > prob[0].amount"),
        {},
        ["step strike", "no column `prob`", "try: one of: `probe`"],
    ),
    "a column that isn't there": (A >> kf.step("c", "amout > 1"), {}, ["step c", "try: one of: `amount`"]),
    "a step that isn't there, in returns": (A >> B, {"x": "c[0].amount"}, ["returns x", "c"]),
    "not true or false": (A >> kf.step("c", "amount + 1"), {}, ["step c", "DOUBLE"]),
    "never true": (A >> kf.step("c", "1 > 2"), {}, ["step c", "never true"]),
    "always null": (A >> kf.step("c", "amount > null"), {}, ["step c", "never true"]),
    "an aggregate of a step's rows": (
        A >> kf.step("c", "amount > avg(a.amount)"),
        {},
        ["step c", "try: a is an array of rows: a[0].x for the first, array_avg(a.x) for all"],
    ),
    "a step's rows as one": (A >> B, {"x": "a.amount + 1"}, ["returns x", "try: a is an array of rows"]),
    "the batch's time, where rows wait": (
        A >> kf.step("c", "current_timestamp() > prev.at"),
        {},
        ["step c", "time of the batch is not known here"],
    ),
    "the batch's time of a match": (A >> B, {"x": "now() > last.at"}, ["returns x", "not known here"]),
    "what must not come always comes": (A >> kf.no("n", "true") >> B, {}, ["no n", "true for every row"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_pattern_that_can_not_be_is_refused(what: str) -> None:
    steps, returns, said = REFUSED[what]
    app = kf.App("shop")
    app.stream("rows", kf.rows([]), SCHEMA, time="at").by("key").pattern(
        "t", steps, within="1 minute", returns=returns
    )
    with pytest.raises(BadExpression) as error, drive(app):
        pass
    text = str(error.value)
    for word in [*said, "shop.t", "test_bounds.py:"]:
        assert word in text, text
    assert "org.apache" not in text
    assert "SQLSTATE" not in text


def test_rows_as_they_come() -> None:
    """By arrival a row may be newer than one that comes after it: it is not taken, and it ends nothing."""
    app = kf.App("arrival")
    rows = app.stream("rows", kf.rows([]), SCHEMA, time="at")
    by, ten = rows.by("key"), "10 seconds"
    silent = A >> kf.no("n", "kind = 'c'")
    by.pattern("silence", silent, within=ten, order="arrival", returns={"at": "a[0].amount"})
    by.pattern("pair", A >> B, within=ten, order="arrival", returns={"b": "b[0].amount"})
    by.pattern("next", A.then(B), within=ten, order="arrival", returns={"b": "b[0].amount"})
    by.pattern("failing", A >> B, within=ten, order="arrival", returns={"b": "1 / b[0].amount"})
    with drive(app) as d:
        d.push("rows", events("silence", ("a", 0, 1.0), ("c", 20, 2.0)))
        d.push("rows", events("noise", ("a", 0, 1.0), ("c", 5, 2.0)))
        d.push("rows", events("pair", ("a", 0, 1.0), ("b", 20, 2.0), ("b", 5, 3.0), ("b", 6, 4.0)))
        d.push("rows", events("zero", ("a", 0, 1.0), ("b", 2, 0.0)))
        d.push("rows", events("at once", ("a", 0, 1.0), ("b", 2, 5.0)))
        d.advance("rows", ZERO + timedelta(seconds=60))

        def found(table: str, column: str) -> dict[str, Any]:
            return {r["key"]: r[column] for r in d.rows(table)}

        assert set(found("silence", "at")) == {"silence", "pair", "zero", "at once"}
        assert found("pair", "b") == {"pair": 3.0, "zero": 0.0, "at once": 5.0}
        assert found("next", "b") == {"zero": 0.0, "at once": 5.0}
        assert found("failing", "b") == {"pair": 1 / 3, "at once": 0.2}
        (rejected,) = d.rejected("failing")
        assert json.loads(rejected["raw"]) == {"key": "zero", "amount": 0.0}
        assert "zero" in rejected["reason"].lower()


def test_what_state_can_not_keep() -> None:
    """Intervals are such: a match may show one, and a stream have one, unless it has to be kept."""
    app = kf.App("spans")
    rows = app.stream("rows", kf.rows([]), f"{SCHEMA}, span interval day to second", time="at")
    steps = kf.step("a", "kind = 'a' and current_timestamp() > at") >> B
    took = {"took": "last.at - first.at", "kinds": "map(1, first.kind)"}
    rows.by("key").pattern("t", steps, within="1 minute", returns=took)
    rows.by("key").pattern("past", A >> kf.step("b", "amount > prev.amount"), within="1 minute")
    with drive(app) as d:
        d.push("rows", events("k", ("a", 0, 1.0), ("b", 2, 2.0)))
        d.advance("rows", ZERO + timedelta(seconds=60))
        assert [(r["took"], r["kinds"]) for r in d.rows("t")] == [(timedelta(seconds=2), {1: "a"})]
        assert len(d.rows("past")) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"returns": {"took": "last.at - first.at"}, "ttl": "1 hour"}, "returns took is of type INTERVAL"),
        ({"returns": {"span": "last.span"}}, "column span is of type INTERVAL"),
    ],
)
def test_what_must_be_kept_and_can_not_be_is_refused(options: dict[str, Any], said: str) -> None:
    app = kf.App("spans")
    rows = app.stream("rows", kf.rows([]), f"{SCHEMA}, span interval day to second", time="at")
    rows.by("key").pattern("t", A >> B, within="1 minute", **options)
    with pytest.raises(BadExpression, match=said), drive(app):
        pass


def test_without_event_time_a_pattern_goes_by_the_time_of_batches() -> None:
    app = kf.App("untimed")
    rows = app.stream("rows", kf.rows([]), "key string, kind string")
    rows.by("key").pattern("pair", A >> B, within="1 hour", order="arrival")
    rows.by("key").pattern("next", A.then(B), within="1 hour", order="arrival")
    with drive(app) as d:
        d.push("rows", [{"key": "k", "kind": "a"}, {"key": "m", "kind": "a"}, {"key": "m", "kind": "c"}])
        d.push("rows", [{"key": "k", "kind": "b"}, {"key": "m", "kind": "b"}])
        assert {r["key"] for r in d.rows("pair")} == {"k", "m"}
        assert {r["key"] for r in d.rows("next")} == {"k"}
        d.crash()
        assert {r["key"] for r in d.rows("pair")} == {"k", "m"}


def test_a_function_of_the_users_own_stays() -> None:
    spark = shared_session()
    spark.sql("create or replace temporary function array_avg(x array<double>) returns double return -1.0D")
    try:
        app = kf.App("own")
        rows = app.stream("rows", kf.rows([]), SCHEMA, time="at")
        rows.by("key").pattern("t", A >> B, within="1 hour", returns={"x": "array_sum(a.amount)"})
        with drive(app):
            assert spark.sql("select array_avg(array(7D)) x").first().x == -1.0
    finally:
        spark.sql("drop temporary function array_avg")


def test_what_differs_is_said_by_step_and_spelling_does_not_count(tmp_path: Path) -> None:
    def app(until: str, last: str) -> kf.App:
        made = kf.App("shop")
        rows = made.stream("rows", kf.rows([]), SCHEMA, time="at")
        some = kf.step("some", "kind = 'a'", times="+", until=until)
        steps = some >> kf.step("where", last)
        rows.where("amount > 0").by("key").pattern("t", steps, within="1 minute")
        return made

    with drive(app("kind = 'x'", "kind = 'b'"), home=tmp_path) as d:
        d.push("rows", events("k", ("a", 0, 1.0)))
    with drive(app("kind  =  'x'", "'b' = kind"), home=tmp_path) as d:
        d.push("rows", events("k", ("b", 1, 1.0)))
    with pytest.raises(StateMismatch, match=r"condition where 1: .*b.*c.*"):
        drive(app("kind = 'x'", "kind = 'c'"), home=tmp_path).__enter__()
    with pytest.raises(StateMismatch, match=r"condition until 2: .*x.*y.*"):
        drive(app("kind = 'y'", "kind = 'b'"), home=tmp_path).__enter__()


def test_a_match_that_waits_for_an_earlier_one_outlives_a_crash_and_is_bounded() -> None:
    app = kf.App("waits")
    by = app.stream("rows", kf.rows([]), SCHEMA, time="at", late="0 seconds").by("key")
    mean = "(array_sum(cheap.amount) + amount) / (size(cheap) + 1) < 100"
    steps = kf.step("cheap", mean, times="+", strict=True).then(kf.step("dear"))
    taken = {"rows": "concat(cheap.amount, dear.amount)"}
    by.pattern("found", steps, within="10 seconds", returns=taken, ttl="5 seconds").changes().by("key").table(
        "counted", n="count(*)"
    )
    by.pattern("limited", steps, within="10 seconds", returns=taken, limit=2)

    def found(table: str) -> dict[str, list[list[float]]]:
        rows = sorted(d.rows(table), key=lambda row: row["started"])
        return {key: [r["rows"] for r in rows if r["key"] == key] for key in {r["key"] for r in rows}}

    def prices(key: str, first: int, *amounts: float) -> list[dict[str, Any]]:
        return events(key, *(("p", first + n, amount) for n, amount in enumerate(amounts)))

    with drive(app) as d:
        d.push("rows", [*prices("k", 0, 10, 60, 200), *prices("silent", 0, 10, 60, 200)])
        d.advance("rows", ZERO + timedelta(seconds=3))
        assert found("found") == found("limited") == {}
        d.crash()
        d.push("rows", prices("k", 3, 90, 500))
        d.advance("rows", ZERO + timedelta(seconds=6))
        assert found("found") == {"k": [[10, 60, 200, 90, 500]]}
        # A third thing to keep: what began first goes, and no longer keeps the second from being given.
        assert found("limited") == {"k": [[60, 200], [90, 500]]}
        assert d.handle.status()["tables"]["limited"]["dropped_partials"] == 1
        d.restart()
        d.advance("rows", ZERO + timedelta(seconds=9.5))
        assert "silent" not in found("limited")
        d.advance("rows", ZERO + timedelta(seconds=10))
        assert found("limited")["silent"] == [[60, 200]]
        # It ended eight seconds ago, so that it goes as it comes; that of the key ended at four.
        assert found("found") == {}
        assert d.rows("counted") == []
