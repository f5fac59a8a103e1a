"""Steps of a pattern that can never come: another takes every row before them, or rules theirs out."""

from __future__ import annotations

from collections.abc import Sequence

from keyfold.errors import BadOption
from keyfold.plan.nodes import Expr
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Condition, Way


def refuse_unreachable(made: Automaton, where: object = None) -> None:
    """Refuses a place of a step that no row can be taken by, whatever rows there are."""
    reached, closed = _reached(made)
    for position, ways, way in closed:
        if position not in reached:
            _refuse(made, ways, way, where)


def unreachable(made: Automaton) -> set[int]:
    """The positions that no row can be taken by."""
    return set(range(len(made.positions))) - _reached(made)[0]


def _reached(made: Automaton) -> tuple[set[int], list[tuple[int, Sequence[Way], Way]]]:
    """Positions that rows may come to, and the ways from there on that none can take."""
    reached: set[int] = set()
    closed: list[tuple[int, Sequence[Way], Way]] = []
    todo: list[Sequence[Way]] = [made.begin]
    while todo:
        ways = todo.pop()
        for way in ways:
            if way.target == ACCEPT or way.target in reached:
                continue
            if _taker(made, ways, way) or _ruler(made, way):
                closed.append((way.target, ways, way))
            else:
                reached.add(way.target)
                todo.append(made.ways[way.target])
    return reached, closed


def _taker(made: Automaton, ways: Sequence[Way], way: Way) -> Condition | None:
    """The step that goes first, takes any row, and is not ended before the way itself is."""
    for first in (ways[number] for number in way.after):
        if first.target == ACCEPT:
            continue
        found = made.conditions[made.positions[first.target]]
        ends, at_once = set(first.ends) - set(way.ends), set(first.at_once) - {*way.at_once, *way.ends}
        if found.expression is None and not ends and not at_once:
            return found
    return None


def _ruler(made: Automaton, way: Way) -> Condition | None:
    """What ends the way with each row that the way could take."""
    wanted = made.conditions[made.positions[way.target]].expression
    enders = (*way.ends, *(way.at_once if way.link == "strict" else ()))
    return next((c for c in map(made.conditions.__getitem__, enders) if _same(c.expression, wanted)), None)


def _same(one: Expr | None, other: Expr | None) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return one is not None and one is other


def _refuse(made: Automaton, ways: Sequence[Way], way: Way, where: object) -> None:
    step = made.conditions[made.positions[way.target]]
    taker, ruler = _taker(made, ways, way), _ruler(made, way)
    if taker is not None:
        why = f"step {taker.name!r} before it is greedy and takes any row, so that none is left"
        hint = f"for step {taker.name!r} a condition, until=, times=(1, 5) or greedy=False"
    elif ruler is not None and ruler.kind == "no":
        why = f"kf.no {ruler.name!r} before it has the same condition, and is about its row too"
        hint = f"a condition for kf.no {ruler.name!r} that is not true for the row of {step.name!r}"
    else:
        why = "the repetition that it is in ends, by until, with each row that fits it"
        hint = f"an until= that is not the condition of {step.name!r}"
    raise BadOption(f"step {step.name!r} can never come: {why}", where=step.site or where, hint=hint)
