"""Steps of a pattern that can never match are refused, with the reason."""

from __future__ import annotations

import re
from typing import Any

import pytest

import keyfold as kf
from keyfold.errors import BadOption

ANY = {times: kf.step("x", times=times) for times in ("+", "*", "?")}
IS_B = "kind = 'b'"
A, B, C = (kf.step(name, f"kind = '{name}'") for name in "abc")
SAME = kf.no("none", f" {IS_B}")
OTHER = kf.no("other", "kind = 'o'")
LAZY = kf.step("x", times="+", greedy=False)
UNTIL = kf.step("x", times="+", until=IS_B)


def declare(steps: kf.Pattern) -> Any:
    stream = kf.App("bank").stream("rows", kf.rows([]), "card int, kind string, at timestamp", time="at")
    return stream.by("card").pattern("found", steps, within="1 hour")


TAKEN = "step 'b' can never match: step 'x' before it is greedy and takes any row.* try: for step 'x'"
RULED = "step 'b' can never match: kf.no 'none' before it has the same condition.* for kf.no 'none'"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (ANY["*"] >> B, TAKEN),
        (ANY["+"] >> B, TAKEN),
        (A >> ANY["+"].then(B), TAKEN),
        (A >> ANY["*"].any(B) >> C, TAKEN),
        (A >> OTHER >> ANY["*"] >> B, TAKEN),
        (A >> ANY["+"] >> OTHER >> B, TAKEN),
        ((B >> ANY["+"]).times(2), TAKEN),
        (A >> (ANY["+"] >> B | C), TAKEN),
        (kf.step("x", times="+", strict=True) >> B, TAKEN),
        (kf.step("x", times="+", combinations=True) >> B, TAKEN),
        (kf.step("x", times=(2, None)) >> kf.step("b", IS_B, times="?"), TAKEN),
        (A >> SAME >> B, RULED),
        (A >> SAME >> kf.step("b", IS_B, times="?") >> C, RULED),
        (A.then(SAME).then(B), RULED),
        (A >> SAME >> (B | C), RULED),
        (A >> kf.step("b", IS_B, times="+", until=IS_B), "step 'b' can never match: the repetition .* until"),
    ],
)
def test_a_step_that_can_never_come_is_refused(steps: kf.Pattern, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        declare(steps)
    text = " ".join(str(caught.value).split())
    assert re.search(said, text), text
    assert re.search(r"where: test_reachability\.py:\d+", text), text


@pytest.mark.parametrize(
    "steps",
    [
        ANY["?"] >> B,
        LAZY >> B,
        UNTIL >> B,
        kf.step("x", times=(1, 3)) >> B,
        A >> ANY["+"],
        A >> ANY["*"] >> OTHER,
        (ANY["+"] | C) >> B,
        A.then(SAME) >> B,
        A >> SAME >> C >> B,
        A >> OTHER >> B,
    ],
)
def test_a_step_that_may_come_is_not_refused(steps: kf.Pattern) -> None:
    assert declare(steps).spec.body.sequence == steps.sequence
