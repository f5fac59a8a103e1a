"""Patterns: facts that others have settled, and what else a table of matches promises.

Translated from Flink: next is `then`, followedBy `>>`, followedByAny `any`, times(n) `times=n`, optional "?"
or "*", allowCombinations `combinations=True`, notNext `then(kf.no)`, notFollowedBy `>> kf.no`; loops
there are lazy unless told, hence `greedy=False`. noSkip is skip="none", skipToNext "next", skipPastLastEvent
"past_last". Events are written as "a1 b1@5": letter and number, and the second if it is not their place.
A query per table is what costs time, so that many facts share one app, each with a key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import keyfold as kf
from keyfold.testing import Driver, drive

pytestmark = pytest.mark.jvm

ZERO = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SCHEMA = "key string, kind string, event string, amount double, at timestamp"


def one(letter: str, **options: Any) -> kf.Pattern:
    return kf.step(letter, f"kind = '{letter}'", **options)


def shown(*steps: str) -> dict[str, str]:
    """The events of the steps, in order."""
    return {"rows": f"concat_ws(' ', {', '.join(f'{step}.event' for step in steps)})"}


def events(k: str | None, text: str, v: dict[str, float] | None = None) -> list[dict[str, Any]]:
    found = []
    for place, token in enumerate(text.split()):
        e, _, at = token.partition("@")
        value = (v or {}).get(e)
        found.append(
            {"key": k, "kind": e[0], "event": e, "amount": value, "at": ZERO + float(at or place) * SECOND}
        )
    return found


def matched(d: Driver, table: str, k: str) -> list[str]:
    return sorted(r["rows"] for r in d.rows(table) if r["key"] == k)


def seconds(at: Any) -> float:
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float((moment - ZERO).total_seconds())


FACTS = {
    "six": "a1 a2 a3 a4 a5 a6",
    "abab": "a1 b1 a2 b2",
    "abbb": "a1 b1 b2 b3",
    "ab": "a b",
    "acb": "a c b",
    "five": "a b c d e",
    "within": "s1@1 s2@2 m@3 f@4 e1@11 e2@13",
    "caab": "c a1 a2 b",
    "caaad": "c a1 a2 a3 d",
    "acbcd": "a c1 b c2 d",
    "strict": "a1 z2 b3 c4 d5 a6 b7 c8 h9",
}


@pytest.fixture(scope="module")
def facts() -> Iterator[Driver]:
    """All rows of the facts, in all patterns."""
    app = kf.App("facts")
    by = app.stream("rows", kf.rows([]), SCHEMA, time="at", late="1 minute").by("key")

    def table(name: str, steps: kf.Pattern, skip: str, *names: str, within: str = "1 hour") -> None:
        by.pattern(name, steps, within=within, skip=skip, returns=shown(*names))

    a, b, c, d = (one(letter) for letter in "abcd")
    for skip in ("none", "past_last", "to_last(a)", "to_first(a)"):
        table(f"f1_{skip.rstrip(')').replace('(', '_')}", one("a", times=3), skip, "a")
    some = one("b", times="+", greedy=False)
    for skip in ("none", "next"):
        table(f"f2_{skip}", a.any(b), skip, "a", "b")
        table(f"f3_{skip}", a.then(some), skip, "a", "b")
    table("f7_next", a.then(b), "none", "a", "b")
    table("f7_followed", kf.step("x") >> kf.step("y"), "none", "x", "y")
    table("f7_any", kf.step("x").any(kf.step("y")), "none", "x", "y")
    table("f8", one("s") >> one("m") >> one("e"), "none", "s", "m", "e", within="10 seconds")
    loop = one("a", times="*", combinations=True, greedy=False)
    table("f10", c.any(loop) >> b, "none", "c", "a", "b")
    table("f10_greedy", c >> one("a", times="*") >> d, "none", "c", "a", "d")
    table("f12_next", a.then(kf.no("n", "kind = 'b'")).any(c) >> d, "none", "a", "c", "d")
    table("f12_followed", (a >> kf.no("n", "kind = 'b'")).any(c) >> d, "none", "a", "c", "d")
    table("f14", a.then(b).then(c), "none", "a", "b", "c")
    with drive(app) as driver:
        driver.push("rows", [row for k, text in FACTS.items() for row in events(k, text)])
        driver.advance("rows", ZERO + 7200 * SECOND)
        yield driver


def test_f1_three_times_by_what_a_match_rules_out(facts: Driver) -> None:
    every = ["a1 a2 a3", "a2 a3 a4", "a3 a4 a5", "a4 a5 a6"]
    assert matched(facts, "f1_none", "six") == every
    assert matched(facts, "f1_past_last", "six") == ["a1 a2 a3", "a4 a5 a6"]
    assert matched(facts, "f1_to_last_a", "six") == ["a1 a2 a3", "a3 a4 a5"]
    assert matched(facts, "f1_to_first_a", "six") == every


def test_f2_any_later_row(facts: Driver) -> None:
    assert matched(facts, "f2_none", "abab") == ["a1 b1", "a1 b2", "a2 b2"]
    assert matched(facts, "f2_next", "abab") == ["a1 b1", "a2 b2"]


def test_f3_a_repetition_at_the_end_is_a_match_for_each_length(facts: Driver) -> None:
    assert matched(facts, "f3_none", "abbb") == ["a1 b1", "a1 b1 b2", "a1 b1 b2 b3"]
    assert matched(facts, "f3_next", "abbb") == ["a1 b1"]


def test_f7_how_near_the_next_row_must_be(facts: Driver) -> None:
    assert matched(facts, "f7_next", "ab") == ["a b"]
    assert matched(facts, "f7_next", "acb") == []
    assert matched(facts, "f7_followed", "five") == ["a b", "b c", "c d", "d e"]
    pairs = [f"{x} {y}" for i, x in enumerate("abcde") for y in "abcde"[i + 1 :]]
    assert matched(facts, "f7_any", "five") == pairs
    # Read by time, and not by their identity.
    assert [row["rows"] for row in facts.rows("f7_any") if row["key"] == "five"] == pairs


def test_f8_the_last_row_is_less_than_within_after_the_first(facts: Driver) -> None:
    assert matched(facts, "f8", "within") == ["s2 m e1"]


def test_f10_combinations_and_greedy(facts: Driver) -> None:
    assert matched(facts, "f10", "caab") == ["c a1 a2 b", "c a1 b", "c a2 b", "c b"]
    assert matched(facts, "f10_greedy", "caaad") == ["c a1 a2 a3 d"]


def test_f12_what_must_not_come_at_once_or_between(facts: Driver) -> None:
    assert matched(facts, "f12_next", "acbcd") == ["a c1 d", "a c2 d"]
    assert matched(facts, "f12_followed", "acbcd") == ["a c1 d"]


def test_f14_one_row_right_after_the_other(facts: Driver) -> None:
    assert matched(facts, "f14", "strict") == ["a6 b7 c8"]


VALUES = {
    "p1": 1.0,
    "p2": 3.0,
    "s1": 15.0,
    "s2": 30.0,
    "a0": 0.0,
    "a1": 1.0,
    "b0": 0.0,
    "b1": 4.0,
    "b9": 50.0,
    **{"x1": 10.0, "x2": 60.0, "x3": 200.0, "x4": 90.0, "x5": 500.0, "x6": 5000.0},
}
RULES = {
    "quiet": "a@0",
    "heard": "a@0 b@5",
    "just_after": "a@0 b@10",
    "stuck": "c1@0 d1@3 c2@20 d2@21 e2@22",
    "loops": "q@0 r1@1 r2@2",
    "pairs": "g1 h1 z g2 h2 i",
    "single": "g1 h1 i",
    "left": "j k1 m",
    "right": "j k2 z l2 m",
    "neither": "j l2 m",
    "ended": "q r1 u r2 x",
    "probing": "p1 p2 s1 s2",
    "divided": "a1 b0 b1",
    "by_past": "a1 a0 b9",
    "disorder": "f1@9 o@8 f2@7",
    "cheap": "x1 x2 x3 x4 x5",
    "cheap_ends": "x1 x2 x3 x6",
    "cheap_waits": "x1 x2 x3",
}


def rules_app() -> kf.App:
    app = kf.App("rules")
    by = app.stream("rows", kf.rows([]), SCHEMA, time="at", late="1 minute").by("key")
    ten = "10 seconds"
    by.pattern("silence", one("a") >> kf.no("n", "kind = 'b'"), within=ten)
    by.pattern(
        "stuck", one("c") >> one("d") >> one("e"), within=ten, timeouts=True, returns=shown("c", "d", "e")
    )
    group = (one("g") >> one("h")).times(2) >> one("i")
    by.pattern("grouped", group, within=ten, returns=shown("g", "h", "i"))
    either = (
        one("j") >> (kf.step("k1", "event = 'k1'") | (kf.step("k2", "event = 'k2'") >> one("l"))) >> one("m")
    )
    by.pattern("either", either, within=ten, returns=shown("j", "k1", "k2", "l", "m"))
    ended = one("q") >> one("r", times="+", until="kind = 'u'") >> one("x")
    by.pattern("ended", ended, within=ten, returns=shown("q", "r", "x"))
    strike = (
        "kind = 's' and amount > 10 * array_avg(p.amount) and amount > p[0].amount and p[5].amount is null"
    )
    probing = one("p", times=2) >> kf.step(
        "s", f"{strike} and first.amount + prev.amount = array_sum(p.amount)"
    )
    lost = {**shown("p", "s"), "lost": "s[0].amount - last.amount / 2 + first.amount", "n": "size(p)"}
    by.pattern("probing", probing, within=ten, returns=lost)
    by.pattern(
        "divided",
        one("a") >> kf.step("b", "kind = 'b' and 100 / amount > 5"),
        within=ten,
        returns=shown("a", "b"),
    )
    past = kf.step("x", "kind = 'a'") >> kf.step(
        "y", "kind in ('a', 'b') and 1 / amount < 1 and amount / prev.amount > 1"
    )
    by.pattern("by_past", past, within=ten, returns=shown("x", "y"))
    loops = one("q") >> one("r", times="+")
    by.pattern("loops", loops, within=ten, skip="none", timeouts=True, returns=shown("q", "r"))
    for order in ("event", "arrival"):
        by.pattern(f"by_{order}", one("o") >> one("f"), within=ten, order=order, returns=shown("o", "f"))
    mean = "kind = 'x' and (array_sum(x.amount) + amount) / (size(x) + 1) < 100"
    dearer = kf.step("x", mean, times="+", strict=True).then(kf.step("y", "kind = 'x' and amount < 1000"))
    by.pattern("dearer", dearer, within=ten, returns=shown("x", "y"))
    brief = by.pattern("brief", one("g").then(one("h")), within=ten, ttl="1 hour", returns=shown("g", "h"))
    brief.changes().by("key").table("counted", n="count(*)", last="max(rows)")
    return app


@pytest.fixture(scope="module")
def rules() -> Iterator[Driver]:
    """All rows of the rules, in all patterns, and the time of all of them is over."""
    with drive(rules_app()) as d:
        rows = [row for k, text in RULES.items() for row in events(k, text, VALUES)]
        d.push("rows", [*rows, *events(None, "a b")])
        # Those that wait for the watermark have not been looked at yet.
        assert matched(d, "by_arrival", "disorder") == ["o f2"]
        assert matched(d, "by_event", "disorder") == []
        d.advance("rows", ZERO + 200 * SECOND)
        yield d


def test_no_at_the_end_is_a_match_when_the_time_is_over(rules: Driver) -> None:
    found = {r["key"]: r for r in rules.rows("silence")}
    assert set(found) == {"quiet", "just_after"}
    assert list(found["quiet"]) == ["key", "match_id", "started", "ended"]
    assert (seconds(found["quiet"]["started"]), seconds(found["quiet"]["ended"])) == (0, 10)


def test_partial_matches_whose_time_ran_out_are_given_and_marked(rules: Driver) -> None:
    found = [r for r in rules.rows("stuck") if r["key"] == "stuck"]
    assert sorted((r["timed_out"], r["rows"], seconds(r["ended"])) for r in found) == [
        (False, "c2 d2 e2", 22),
        (True, "c1 d1", 10),
    ]


def test_a_match_that_could_go_on_does_not_run_out(rules: Driver) -> None:
    found = [
        (r["rows"], r["timed_out"], seconds(r["ended"])) for r in rules.rows("loops") if r["key"] == "loops"
    ]
    assert sorted(found) == [("q r1", False, 1), ("q r1 r2", False, 2)]


def test_the_match_that_begins_first_wins_though_another_is_complete_before_it(rules: Driver) -> None:
    assert matched(rules, "dearer", "cheap") == ["x1 x2 x3 x4 x5"]


@pytest.mark.parametrize("key", ["cheap_ends", "cheap_waits"])
def test_a_complete_match_is_given_when_the_one_that_began_before_it_ends(rules: Driver, key: str) -> None:
    assert matched(rules, "dearer", key) == ["x2 x3"]


def test_a_group_is_taken_as_often_as_told(rules: Driver) -> None:
    assert [r["key"] for r in rules.rows("grouped")] == ["pairs"]
    assert matched(rules, "grouped", "pairs") == ["g1 g2 h1 h2 i"]


def test_one_of_several_alternatives(rules: Driver) -> None:
    assert {r["key"]: r["rows"] for r in rules.rows("either")} == {"left": "j k1 m", "right": "j k2 l2 m"}


def test_a_row_that_ends_a_repetition_lets_what_follows_it_come(rules: Driver) -> None:
    assert matched(rules, "ended", "ended") == ["q r1 x"]


def test_conditions_see_what_was_taken_before(rules: Driver) -> None:
    found = [(r["rows"], r["lost"], r["n"]) for r in rules.rows("probing")]
    assert found == [("p1 p2 s2", 30 - 15 + 1, 2)]


@pytest.mark.parametrize("table", ["divided", "by_past"])
def test_a_row_whose_condition_fails_is_rejected_and_leaves_no_trace(rules: Driver, table: str) -> None:
    assert matched(rules, table, table) == {"divided": ["a1 b1"], "by_past": ["a1 b9"]}[table]
    set_aside = [r for r in rules.rejected(table) if json.loads(r["raw"])["key"] == table]
    assert [json.loads(r["raw"])["event"] for r in set_aside] == [{"divided": "b0", "by_past": "a0"}[table]]
    assert "zero" in set_aside[0]["reason"].lower()


def test_rows_without_a_key_are_rejected(rules: Driver) -> None:
    for table in ("silence", "brief", "by_arrival"):
        raw = [json.loads(r["raw"]) for r in rules.rejected(table)]
        assert sorted(r["event"] for r in raw if r.get("key") is None) == ["a", "b"], table


def test_rows_are_taken_by_time_or_as_they_come(rules: Driver) -> None:
    assert matched(rules, "by_event", "disorder") == ["o f1"]
    assert matched(rules, "by_arrival", "disorder") == ["o f2"]


def test_a_row_that_the_watermark_has_passed_is_late(rules: Driver) -> None:
    before = rules.rows("stuck")
    rules.push("rows", events("tardy", "c@0 d@1 e@2"))
    assert sorted(json.loads(r["raw"])["event"] for r in rules.late("stuck")) == ["c", "d", "e"]
    assert rules.rows("stuck") == before


def test_matches_are_the_same_after_a_crash_and_no_two_are_one(rules: Driver) -> None:
    rules.push("rows", events("again", "o@150 f1@151"))
    rules.advance("rows", ZERO + 220 * SECOND)
    tables = [t for t in rules.handle.status()["tables"] if t != "counted"]
    before = {t: rules.rows(t) for t in tables}
    assert matched(rules, "by_event", "again") == ["o f1"]
    rules.crash()
    assert {t: rules.rows(t) for t in tables} == before
    ids = [(t, r["key"], r["match_id"]) for t, rows in before.items() for r in rows]
    assert len(set(ids)) == len(ids) > 10


def test_matches_are_changes_that_feed_another_table_and_go_after_their_time(rules: Driver) -> None:
    def counted() -> dict[str, tuple[int, str]]:
        return {r["key"]: (r["n"], r["last"]) for r in rules.rows("counted")}

    assert matched(rules, "brief", "pairs") == ["g1 h1", "g2 h2"]
    assert counted() == {"pairs": (2, "g2 h2"), "single": (1, "g1 h1")}
    # "g1 h1" ended at 1, and the hour is over when the watermark has come to 3601; "g2 h2" ended at 4.
    rules.advance("rows", ZERO + (3601 + 60) * SECOND)
    assert matched(rules, "brief", "pairs") == ["g2 h2"]
    assert counted() == {"pairs": (1, "g2 h2")}


def state(d: Driver, table: str) -> Any:
    source = d.handle.spark.read.format("statestore").option("stateVarName", "state")
    (found,) = source.load(str(d.handle.home.table(table).checkpoint)).collect()
    return found.user_map_value


def test_a_thousand_overlapping_partial_matches_keep_each_row_once_and_no_more_than_the_limit() -> None:
    app = kf.App("overlapping")
    by = app.stream("rows", kf.rows([]), SCHEMA, time="at", late="0 seconds").by("key")
    # Each row begins a match and carries on all that began before it: half a million pairs of rows.
    steps = one("a").any(kf.step("a2", "kind = 'a'")).any(one("b"))
    by.pattern("waiting", one("a") >> one("b"), within="1 day", skip="none", returns=shown("a", "b"))
    by.pattern(
        "limited", one("a") >> one("b"), within="1 day", skip="none", limit=100, returns=shown("a", "b")
    )
    by.pattern("pairs", steps, within="1 day", skip="none", limit=2000, returns=shown("a", "a2", "b"))
    with drive(app) as d:
        for batch in (range(400), range(400, 1000)):
            d.push("rows", [row for n in batch for row in events("k", f"a{n}@{n}")])
        d.advance("rows", ZERO + 1001 * SECOND)
        assert len(state(d, "waiting").rows) == 1000
        assert len(state(d, "limited").rows) == 100
        assert len(state(d, "pairs").rows) <= 64
        status = d.handle.status()["tables"]
        assert status["waiting"]["dropped_partials"] == 0
        assert status["limited"]["dropped_partials"] == 900
        assert status["limited"]["duplicates"] == 0
        d.push("rows", events("k", "b@1002"))
        d.advance("rows", ZERO + 1004 * SECOND)
        assert len(d.rows("waiting")) == 1000
        kept = {f"a{n} b" for n in range(900, 1000)}
        assert {r["rows"] for r in d.rows("limited")} == kept
