"""Steps of a pattern that no row can reach: another step takes every row, or a condition excludes theirs."""

from __future__ import annotations

from collections.abc import Sequence

from keyfold.errors import BadOption
from keyfold.plan.nodes import Expr
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition
from keyfold.plan.pattern.program import Condition


def refuse_unreachable(made: Automaton, where: object = None) -> None:
    """Refuses a pattern with a position that is unreachable whatever the rows are."""
    reached, blocked = _reachable(made)
    for siblings, transition in blocked:
        if transition.target not in reached:
            _refuse(made, siblings, transition, where)


def unreachable(made: Automaton) -> set[int]:
    """The positions that no row can reach."""
    return set(range(len(made.positions))) - _reachable(made)[0]


def _reachable(made: Automaton) -> tuple[set[int], list[tuple[Sequence[Transition], Transition]]]:
    """The reachable positions, and the transitions from them that no row can take, with their siblings."""
    reached: set[int] = set()
    blocked: list[tuple[Sequence[Transition], Transition]] = []
    todo: list[Sequence[Transition]] = [made.initial]
    while todo:
        siblings = todo.pop()
        for transition in siblings:
            if transition.target == ACCEPT or transition.target in reached:
                continue
            if _preempting(made, siblings, transition) or _excluding(made, transition):
                blocked.append((siblings, transition))
            else:
                reached.add(transition.target)
                todo.append(made.transitions[transition.target])
    return reached, blocked


def _preempting(made: Automaton, siblings: Sequence[Transition], transition: Transition) -> Condition | None:
    """The step with precedence that takes any row, and is not disabled before the transition itself is."""
    for first in (siblings[number] for number in transition.yields_to):
        if first.target == ACCEPT:
            continue
        found = made.conditions[made.positions[first.target]]
        always = set(transition.disabled_by)
        disabled_by = set(first.disabled_by) - always
        disabled_by_next = set(first.disabled_by_next) - always - set(transition.disabled_by_next)
        if found.expression is None and not disabled_by and not disabled_by_next:
            return found
    return None


def _excluding(made: Automaton, transition: Transition) -> Condition | None:
    """The condition that disables the transition with every row that it could take."""
    wanted = made.conditions[made.positions[transition.target]].expression
    next_only = transition.disabled_by_next if transition.contiguity == "strict" else ()
    disabling = map(made.conditions.__getitem__, (*transition.disabled_by, *next_only))
    return next((condition for condition in disabling if _same(condition.expression, wanted)), None)


def _same(one: Expr | None, other: Expr | None) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return one is not None and one is other


def _refuse(made: Automaton, siblings: Sequence[Transition], transition: Transition, where: object) -> None:
    step = made.conditions[made.positions[transition.target]]
    preempting, excluding = _preempting(made, siblings, transition), _excluding(made, transition)
    if preempting is not None:
        why = f"step {preempting.name!r} before it is greedy and takes any row, so that none is left"
        hint = f"for step {preempting.name!r} a condition, until=, times=(1, 5) or greedy=False"
    elif excluding is not None and excluding.kind == "no":
        why = f"kf.no {excluding.name!r} before it has the same condition, and is about its row too"
        hint = f"a condition for kf.no {excluding.name!r} that is not true for the row of {step.name!r}"
    else:
        why = "the repetition that it is in ends, by until, with each row that fits it"
        hint = f"an until= that is not the condition of {step.name!r}"
    raise BadOption(f"step {step.name!r} can never match: {why}", where=step.site or where, hint=hint)
