"""The automaton that a pattern is compiled to: its positions, and the transitions between them."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadOption
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition, automaton
from keyfold.plan.pattern.syntax import PatternSpec
from tests.step_counts import calls

KERNEL_SUITE = Path(__file__).parents[2] / "kernel/scala/pattern/AutomatonSuite.scala"


def one(name: str, **options: Any) -> kf.Pattern:
    return kf.step(name, f"kind = '{name}'", **options)


def table(pattern: kf.Pattern) -> Automaton:
    return automaton(PatternSpec(pattern.sequence, within_ms=1000))


def targets(transitions: tuple[Transition, ...]) -> list[int]:
    return [transition.target for transition in transitions]


def test_a_step_has_a_position_for_each_time_that_it_must_come() -> None:
    assert table(one("a", times=3)).positions == (0, 0, 0)
    assert [targets(out) for out in table(one("a", times=3)).transitions] == [[1], [2], [ACCEPT]]


def test_a_repetition_without_an_end_comes_back_to_its_last_position() -> None:
    assert [targets(out) for out in table(one("a", times="+")).transitions] == [[0, ACCEPT]]
    assert [targets(out) for out in table(one("a", times=(2, None))).transitions] == [[1], [1, ACCEPT]]


def test_an_optional_step_that_is_left_out_does_not_determine_the_contiguity() -> None:
    made = table(one("a").then(one("b", times="?")) >> one("c"))
    assert made.transitions[0] == (Transition(1, "strict"), Transition(2, "relaxed", yields_to=(0,)))
    assert made.transitions[1] == (Transition(2, "relaxed"),)


def test_a_bounded_repetition_may_end_once_it_came_often_enough() -> None:
    made = table(one("a", times=(2, 3), strict=True))
    assert made.transitions == (
        (Transition(1, "strict"),),
        (Transition(2, "strict"), Transition(ACCEPT, yields_to=(0,))),
        (Transition(ACCEPT),),
    )


def test_a_greedy_repetition_takes_precedence_and_a_lazy_one_does_not() -> None:
    greedy, lazy = (table(one("a") >> one("b", times="*", greedy=g) >> one("c")) for g in (True, False))
    assert [t.yields_to for t in greedy.transitions[0]] == [(), (0,)]
    assert [t.yields_to for t in lazy.transitions[0]] == [(), ()]


def test_a_negation_disables_the_transitions_that_pass_it() -> None:
    no = kf.no("n", "kind = 'n'")
    between, at_once = table(one("a") >> no >> one("b")), table(one("a").then(no) >> one("b"))
    assert [c.kind for c in between.conditions] == ["step", "step", "no"]
    assert between.transitions[0] == (Transition(1, "relaxed", disabled_by=(2,)),)
    assert at_once.transitions[0] == (Transition(1, "relaxed", disabled_by_next=(2,)),)
    assert table(one("a") >> no).transitions[0] == (Transition(ACCEPT, disabled_by=(1,)),)


def test_until_disables_the_transitions_of_a_repetition_and_keeps_those_out_of_it() -> None:
    made = table(one("a", times="+", until="kind = 'u'") >> one("b"))
    assert made.transitions[0] == (
        Transition(0, "relaxed", disabled_by=(2,)),
        Transition(1, "relaxed", yields_to=(0,)),
    )
    # No row precedes the first one.
    assert made.initial == (Transition(0),)


def test_alternatives_are_transitions_side_by_side_also_if_one_is_optional() -> None:
    maybe = one("x", times="?") | one("y", times="?")
    made = table(one("a") >> maybe >> one("z"))
    assert made.transitions[0] == (
        Transition(1),
        Transition(3, yields_to=(0,)),
        Transition(2),
        Transition(3, yields_to=(2,)),
    )


def test_one_step_in_two_places_is_one_condition() -> None:
    made = table(one("a") >> one("b") >> one("a"))
    assert (made.steps, made.positions, len(made.conditions)) == (("a", "b"), (0, 1, 0), 2)
    assert table((one("a") >> one("b")) | (one("a") >> one("c"))).positions == (0, 1, 0, 2)


def test_the_automaton_is_plain_data() -> None:
    made = table((one("a") >> one("b")).times((1, 3)) >> kf.no("n", "kind = 'n'"))
    plain = json.loads(json.dumps(made.plain()))
    assert plain["positions"] == [0, 1] * 3
    assert plain["initial"] == [[0, "relaxed", [], [], []]]
    assert [len(out) for out in plain["transitions"]] == [1, 2, 1, 2, 1, 1]


def test_the_kernel_tests_parse_what_is_written_here() -> None:
    repeated = kf.step("b", "x=3", times="+", until="x=4")
    made = table(kf.step("a", "x=1") >> kf.no("n", "x=2") >> repeated.then(kf.step("c")))
    text = KERNEL_SUITE.read_text()
    assert json.loads(text.split('"""')[1]) == json.loads(json.dumps(made.plain()))


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
