"""Checks of patterns: that they can match, that their state is bounded, and what they return."""

from __future__ import annotations

import re
from typing import Final, cast

from keyfold.errors import BadName, BadOption, choice, did_you_mean
from keyfold.plan.nodes import Named, Node
from keyfold.plan.pattern.automaton import automaton
from keyfold.plan.pattern.reachability import refuse_unreachable
from keyfold.plan.pattern.syntax import (
    Atom,
    Chain,
    Either,
    No,
    Order,
    PatternSpec,
    Repeat,
    Sequence,
    SkipKind,
    is_bounded,
    optional,
    own_columns,
    parts,
    steps,
    walk,
)
from keyfold.plan.table_keys import MATCH_ID
from keyfold.plan.validate import arguments, known_columns
from keyfold.plan.validate.table_options import length

_ROW_NAMES: Final = ("prev", "first", "last")
_SKIP: Final = re.compile(r"(to_first|to_last)\(\s*(\w+)\s*\)")
_SKIPS: Final = ("past_last", "next", "none")
_MOST_CONDITIONS: Final = 63
# The kernel counts them as Java's int.
_MOST_LIMIT: Final = 2**31 - 1


def pattern(
    sequence: Sequence,
    within: object,
    skip: object,
    order: object,
    returns: object,
    timeouts: object,
    limit: object,
    keys: Named,
    node: Node,
    where: object = None,
) -> PatternSpec:
    """The pattern, if it can match and its state is bounded."""
    with_timeouts = arguments.flag(timeouts, "timeouts", where)
    _check_names(sequence, node, where)
    _check_keys(sequence, keys, with_timeouts, where)
    _check_negations(sequence, where)
    _check_mandatory_step(sequence, where)
    within_ms = length(within, "within", where)
    _check_bounded(sequence, within_ms, with_timeouts, where)
    kind, step = _checked_skip(skip, sequence, where)
    found = PatternSpec(
        sequence,
        within_ms,
        kind,
        step,
        cast(Order, arguments.one_of(order, ("event", "arrival"), "order", where)),
        _checked_returns(returns, keys, where),
        with_timeouts,
        _checked_limit(limit, where),
    )
    made = automaton(found, where)
    if len(made.conditions) > _MOST_CONDITIONS:
        problem = f"the pattern has {len(made.conditions)} conditions"
        raise BadOption(problem, where=where, hint=f"use at most {_MOST_CONDITIONS}")
    refuse_unreachable(made, where)
    return found


def _check_names(sequence: Sequence, node: Node, where: object) -> None:
    """A step's name identifies its condition and its rows, so each name has one condition."""
    seen: dict[str, Atom | No] = {}
    columns = {c.lower() for c in known_columns.of_stream(node) or ()}
    for part in walk(sequence):
        if not isinstance(part, Atom | No):
            continue
        name = part.name.lower()
        if name in _ROW_NAMES:
            problem = (
                f"a step must not be named {part.name!r}, which refers to a row of the match in conditions"
            )
            raise BadName(problem, where=part.site or where, hint="another name")
        if name in columns:
            problem = f"a step and a column of the stream are both named {part.name!r}"
            raise BadName(problem, where=part.site or where, hint="another name for the step")
        other = seen.setdefault(name, part)
        if other != part:
            problem = f"two different steps are named {part.name!r}"
            raise BadName(
                problem, where=part.site or where, given=f"the other is at {other.site}", hint="another name"
            )


def _check_keys(sequence: Sequence, keys: Named, timeouts: bool, where: object) -> None:
    """A key is a column of the table and visible in `returns`, so its name must be free."""
    taken = dict.fromkeys((MATCH_ID, *own_columns(timeouts=timeouts)), "a column of every match")
    taken |= {step.name.lower(): "a step of the pattern" for step in steps(sequence)}
    for name, expression in keys:
        if name.lower() in taken:
            spelled = repr(expression) if isinstance(expression, str) else "..."
            problem = f"key {name!r} has the name of {taken[name.lower()]}"
            raise BadName(problem, where=where, hint=f"another name for the key: by({name}_key={spelled})")


def _checked_limit(limit: object, where: object) -> int:
    if (found := arguments.positive(limit, "limit", where)) > _MOST_LIMIT:
        hint = f"at most {_MOST_LIMIT}; a key becomes slow with far fewer partial matches"
        raise BadOption("limit is too large", where=where, given=f"limit={found}", hint=hint)
    return found


def _check_negations(sequence: Sequence, where: object) -> None:
    """A negation is between two steps, or at the end of the whole pattern."""
    for part in walk(sequence):
        if isinstance(part, No) and part is sequence:
            _refuse_no(part, "is the whole pattern", where)
        for inner in parts(part) if isinstance(part, Repeat | Either) else ():
            if isinstance(end := _last(inner), No):
                _refuse_no(end, "ends a part of the pattern", where)


def _last(sequence: Sequence) -> Sequence:
    return sequence.rest[-1][1] if isinstance(sequence, Chain) else sequence


def _refuse_no(no: No, why: str, where: object) -> None:
    hint = "kf.no between two steps, a >> kf.no(...) >> b, or last in the whole pattern, after >>"
    raise BadOption(f"kf.no {no.name!r} {why}", where=no.site or where, hint=hint)


def _check_mandatory_step(sequence: Sequence, where: object) -> None:
    if optional(sequence):
        names = ", ".join(step.name for step in steps(sequence))
        problem = "the pattern can match without a row: every step is optional"
        raise BadOption(problem, where=where, given=names, hint='make a step mandatory: times="+" or times=1')


def _check_bounded(sequence: Sequence, within_ms: int | None, timeouts: bool, where: object) -> None:
    if within_ms is not None:
        return
    hint = 'within="10 minutes"'
    if isinstance(end := _last(sequence), No):
        problem = f"the pattern ends with kf.no {end.name!r}, and without `within` it never completes"
        raise BadOption(problem, where=where, hint=hint)
    if not is_bounded(sequence):
        problem = "the pattern needs `within`: its partial matches would be kept forever"
        raise BadOption(problem, where=where, hint=f"{hint}; or only then(...), without unbounded repetition")
    if timeouts:
        raise BadOption("timeouts need `within`: nothing times out without it", where=where, hint=hint)


def _checked_skip(skip: object, sequence: Sequence, where: object) -> tuple[SkipKind, str | None]:
    if isinstance(skip, str) and (found := _SKIP.fullmatch(skip.strip())):
        names = [step.name for step in steps(sequence)]
        by_name = {name.lower(): name for name in names}
        if found[2].lower() not in by_name:
            hint = did_you_mean(found[2], names, choice(names))
            raise BadOption(
                f"skip names {found[2]!r}, which is not a step", where=where, given=skip, hint=hint
            )
        return cast(SkipKind, found[1]), by_name[found[2].lower()]
    if skip in ("to_first", "to_last"):
        raise BadOption(
            f"skip={skip!r} needs the name of a step",
            where=where,
            given=repr(skip),
            hint=f'skip="{skip}(step)"',
        )
    return cast(
        SkipKind, arguments.one_of(skip, (*_SKIPS, "to_first(step)", "to_last(step)"), "skip", where)
    ), None


def _checked_returns(returns: object, keys: Named, where: object) -> Named:
    if returns is None:
        return ()
    advice = 'returns={"probes": "size(probe)"}'
    given = arguments.mapping(returns, "returns must be a dict of expressions", advice, where)
    own = (MATCH_ID, *own_columns(timeouts=True))
    taken = {name.lower(): "a key" for name, _ in keys} | dict.fromkeys(own, "a column of every match")
    for name in given:
        if isinstance(name, str) and name.lower() in taken:
            problem = f"{name!r} in returns has the name of {taken[name.lower()]}"
            raise BadName(problem, where=where, hint="another name")
    return arguments.check_named(given, "a returned column", where)
