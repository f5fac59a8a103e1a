"""The table that a pattern is made into: its positions, and the ways between them."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Way, automaton
from keyfold.plan.pattern.syntax import PatternSpec
from tests.step_counts import calls


def one(name: str, **options: Any) -> kf.Pattern:
    return kf.step(name, f"kind = '{name}'", **options)


def table(pattern: kf.Pattern) -> Automaton:
    return automaton(PatternSpec(pattern.sequence, within_ms=1000))


def targets(ways: tuple[Way, ...]) -> list[int]:
    return [way.target for way in ways]


def test_a_step_has_a_position_for_each_time_that_it_must_come() -> None:
    assert table(one("a", times=3)).positions == (0, 0, 0)
    assert [targets(ways) for ways in table(one("a", times=3)).ways] == [[1], [2], [ACCEPT]]


def test_a_repetition_without_an_end_comes_back_to_its_last_position() -> None:
    assert [targets(ways) for ways in table(one("a", times="+")).ways] == [[0, ACCEPT]]
    assert [targets(ways) for ways in table(one("a", times=(2, None))).ways] == [[1], [1, ACCEPT]]


def test_what_may_be_left_out_has_no_say_in_how_near_the_next_row_must_be() -> None:
    made = table(one("a").then(one("b", times="?")) >> one("c"))
    assert made.ways[0] == (Way(1, "strict"), Way(2, "next", after=(0,)))
    assert made.ways[1] == (Way(2, "next"),)


def test_a_bounded_repetition_may_end_once_it_came_often_enough() -> None:
    made = table(one("a", times=(2, 3), strict=True))
    assert made.ways == ((Way(1, "strict"),), (Way(2, "strict"), Way(ACCEPT, after=(0,))), (Way(ACCEPT),))


def test_a_greedy_repetition_goes_first_and_a_lazy_one_does_not() -> None:
    greedy, lazy = (table(one("a") >> one("b", times="*", greedy=g) >> one("c")) for g in (True, False))
    assert [way.after for way in greedy.ways[0]] == [(), (0,)]
    assert [way.after for way in lazy.ways[0]] == [(), ()]


def test_what_must_not_come_ends_the_ways_that_pass_it() -> None:
    no = kf.no("n", "kind = 'n'")
    between, at_once = table(one("a") >> no >> one("b")), table(one("a").then(no) >> one("b"))
    assert [c.kind for c in between.conditions] == ["step", "step", "no"]
    assert between.ways[0] == (Way(1, "next", ends=(2,)),)
    assert at_once.ways[0] == (Way(1, "next", at_once=(2,)),)
    assert table(one("a") >> no).ways[0] == (Way(ACCEPT, ends=(1,)),)


def test_until_ends_the_ways_of_a_repetition_and_leaves_those_out_of_it() -> None:
    made = table(one("a", times="+", until="kind = 'u'") >> one("b"))
    assert made.ways[0] == (Way(0, "next", ends=(2,)), Way(1, "next", after=(0,)))
    # There is no row before the first one, from which it would count.
    assert made.begin == (Way(0),)


def test_alternatives_are_ways_side_by_side_also_if_one_may_be_left_out() -> None:
    maybe = one("x", times="?") | one("y", times="?")
    made = table(one("a") >> maybe >> one("z"))
    assert made.ways[0] == (Way(1), Way(3, after=(0,)), Way(2), Way(3, after=(2,)))


def test_one_step_in_two_places_is_one_condition() -> None:
    made = table(one("a") >> one("b") >> one("a"))
    assert (made.steps, made.positions, len(made.conditions)) == (("a", "b"), (0, 1, 0), 2)
    assert table((one("a") >> one("b")) | (one("a") >> one("c"))).positions == (0, 1, 0, 2)


def test_the_table_is_plain_data() -> None:
    made = table((one("a") >> one("b")).times((1, 3)) >> kf.no("n", "kind = 'n'"))
    plain = json.loads(json.dumps(made.plain()))
    assert plain["positions"] == [0, 1] * 3
    assert plain["begin"] == [[0, "next", [], [], []]]
    assert [len(ways) for ways in plain["ways"]] == [1, 2, 1, 2, 1, 1]


def test_a_pattern_that_is_too_large_is_refused() -> None:
    with pytest.raises(BadOption, match="too large: its steps, with their repetitions, are 2001"):
        table(one("a", times=2001))
    many = reduce(kf.Pattern.__rshift__, [one(f"s{n}", times="?") for n in range(63)], one("a"))
    with pytest.raises(BadOption, match="more than 63 steps may follow one row"):
        table(many)


def test_what_is_far_too_large_is_refused_at_once() -> None:
    with calls() as made:
        with pytest.raises(BadOption, match="with their repetitions, are 1000000000"):
            table(one("a", times=10**9))
        with pytest.raises(BadOption, match="with their repetitions, are 2000000000"):
            table(one("a") | (one("a") >> one("b")).times((0, 10**9 - 1)) | one("b"))
    assert made[0] < 10_000


@pytest.mark.parametrize("greedy", [True, False])
def test_alternatives_that_may_be_left_out_are_refused_at_once_however_many_there_are(greedy: bool) -> None:
    left = one("a", times="?", greedy=greedy) | one("b", times="?", greedy=greedy)
    for parts in ([one(f"s{n}", times="?", greedy=greedy) for n in range(600)], [left] * 31, [left] * 600):
        chain = reduce(kf.Pattern.__rshift__, parts, one("z"))
        for pattern in (chain, chain.times("+")):
            with calls() as made, pytest.raises(BadOption, match="the pattern is too large"):
                table(pattern)
            assert made[0] < 200_000


def test_a_condition_has_the_line_of_its_step() -> None:
    a = kf.step("a", "kind = 'a'")
    no = kf.no("n", "kind = 'n'")
    b = kf.step("b", "kind = 'b'", times="+", until="kind = 'u'")
    lines = {c.name: c.site.line for c in table(a >> no >> b).conditions if c.site is not None}
    first = lines["a"]
    assert lines == {"a": first, "n": first + 1, "b": first + 2, "until kind = 'u'": first + 2}


def test_a_pattern_that_may_end_with_what_must_not_come_at_once_is_refused() -> None:
    with pytest.raises(BadOption, match=r"may end with kf\.no 'n'"):
        table(one("a").then(kf.no("n", "kind = 'n'")) >> one("b", times="?"))
