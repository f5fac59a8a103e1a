"""A pattern compiled to the automaton that the kernel runs: which transitions may follow each matched row.

A position is one occurrence of a step in the pattern; a repeated step has several. Each position has
transitions to the positions that may follow it. For each partial match the kernel keeps its position and the
set of transitions that are still enabled: a row in between may have disabled some.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from keyfold.errors import BadOption
from keyfold.plan.pattern.program import Condition, Instruction, Jump, Near, Not, Program, Split, Take
from keyfold.plan.pattern.syntax import Contiguity, PatternSpec, size

ACCEPT: Final = -1
"""The target of a transition that completes the pattern."""
MAX_POSITIONS: Final = 2000
# The kernel keeps a partial match's enabled transitions as the bits of a long, and needs one bit itself.
MAX_TRANSITIONS: Final = 63
# Each optional alternative doubles the paths to what follows, even where they end in the same transitions.
_MAX_PATHS: Final = 5000


@dataclass(frozen=True)
class Transition:
    """A transition from one position to another.

    A row disables it if it satisfies a condition of `disabled_by`; if it is the very next row and satisfies
    one of `disabled_by_next`; if it is taken by a transition of `yields_to`; or if the transition is strict
    and does not take the row.
    """

    target: int
    contiguity: Contiguity = "relaxed"
    disabled_by: tuple[int, ...] = ()
    disabled_by_next: tuple[int, ...] = ()
    yields_to: tuple[int, ...] = ()
    """Transitions of the same position with precedence: those that continue a greedy repetition."""


@dataclass(frozen=True)
class Automaton:
    """The positions, each as the number of its step, and their transitions."""

    steps: tuple[str, ...]
    conditions: tuple[Condition, ...]
    """The conditions of the steps come first, in the same order."""
    positions: tuple[int, ...]
    written: tuple[int, ...]
    """By position: which step of the pattern's text it is; a repeated step is written once."""
    initial: tuple[Transition, ...]
    """The transitions that start a partial match."""
    transitions: tuple[tuple[Transition, ...], ...]
    """The transitions of each position."""

    def plain(self) -> dict[str, object]:
        """The automaton as JSON data, for the kernel (`Automaton.parse`)."""

        def as_lists(transitions: Iterable[Transition]) -> list[list[object]]:
            return [
                [t.target, t.contiguity, list(t.disabled_by), list(t.disabled_by_next), list(t.yields_to)]
                for t in transitions
            ]

        return {
            "steps": self.steps,
            "conditions": [[c.name, c.phrase] for c in self.conditions],
            "positions": self.positions,
            "initial": as_lists(self.initial),
            "transitions": [as_lists(transitions) for transitions in self.transitions],
        }


def automaton(pattern: PatternSpec, where: object = None) -> Automaton:
    """Compiles a pattern."""
    # Before anything is unrolled: times=1_000_000_000 would not come to an end.
    if (found := size(pattern.sequence)) > MAX_POSITIONS:
        problem = f"the pattern is too large: its steps, with their repetitions, are {found}"
        hint = f"at most {MAX_POSITIONS}; count rows with a window instead: by(...).rolling(...)"
        raise BadOption(problem, where=where, hint=hint)
    program = Program(pattern.sequence)
    takes = {at: one for at, one in enumerate(program.code) if isinstance(one, Take)}
    positions = {at: number for number, at in enumerate(takes)}
    reachable = _Transitions(program.code, positions, where)
    compiled = Automaton(
        tuple(program.steps),
        tuple(program.conditions),
        tuple(take.step for take in takes.values()),
        tuple(take.written for take in takes.values()),
        # No row precedes the first one, so nothing can disable an initial transition.
        tuple(replace(t, disabled_by=(), disabled_by_next=()) for t in reachable.after(0)),
        tuple(reachable.after(at + 1) for at in takes),
    )
    _refuse_open_end(compiled, where)
    return compiled


def _refuse_open_end(compiled: Automaton, where: object) -> None:
    """A negation of the very next row must be followed by a step: otherwise no row may ever decide it."""
    accepting = (t for out in compiled.transitions for t in out if t.target == ACCEPT)
    for transition in accepting:
        if transition.disabled_by_next:
            name = compiled.conditions[transition.disabled_by_next[0]].name
            problem = f"the pattern may end with kf.no {name!r} as its very next row, which may never arrive"
            hint = "a mandatory step after it, or >> kf.no(...) with within"
            raise BadOption(problem, where=where, hint=hint)


class _Transitions:
    """The transitions that are reachable from an instruction, those with precedence first."""

    def __init__(self, code: list[Instruction], positions: dict[int, int], where: object) -> None:
        self._code = code
        self._positions = positions
        self._where = where
        self._numbers: dict[Transition, int] = {}
        self._paths = 0

    def after(self, at: int) -> tuple[Transition, ...]:
        """The transitions from an instruction on."""
        self._numbers, self._paths = {}, 0
        self._follow(at, Transition(ACCEPT), frozenset())
        return tuple(self._numbers)

    def _follow(self, at: int, transition: Transition, seen: frozenset[int]) -> list[int]:
        """Adds the transitions that begin as the given one; returns their numbers."""
        self._paths += 1
        if self._paths > _MAX_PATHS:
            self._refuse("thousands of ways lead from one row to the next")
        while at < len(self._code):
            one = self._code[at]
            if isinstance(one, Take):
                disabled_by = (*transition.disabled_by, *one.until)
                return self._add(replace(transition, target=self._positions[at], disabled_by=disabled_by))
            if isinstance(one, Split):
                return self._split(at, one, transition, seen)
            transition = _constrain(transition, one)
            at = one.to if isinstance(one, Jump) else at + 1
        return self._add(replace(transition, target=ACCEPT))

    def _split(self, at: int, split: Split, transition: Transition, seen: frozenset[int]) -> list[int]:
        # A repetition of an optional part leads back here without a row.
        if at in seen:
            return []
        inner = seen | {at}
        first = self._follow(at + 1, transition, inner)
        if split.greedy:
            transition = replace(transition, yields_to=(*transition.yields_to, *first))
        return first + [n for other in split.others for n in self._follow(other, transition, inner)]

    def _add(self, transition: Transition) -> list[int]:
        number = self._numbers.setdefault(transition, len(self._numbers))
        if len(self._numbers) > MAX_TRANSITIONS:
            self._refuse(f"more than {MAX_TRANSITIONS} steps may follow one row")
        return [number]

    def _refuse(self, why: str) -> NoReturn:
        hint = "fewer steps that may be left out, one after the other, or fewer alternatives"
        raise BadOption(f"the pattern is too large: {why}", where=self._where, hint=hint)


def _constrain(transition: Transition, one: Near | Not | Jump) -> Transition:
    """The transition with the constraint that an instruction adds."""
    if isinstance(one, Near):
        return replace(transition, contiguity=one.contiguity)
    if isinstance(one, Not) and one.next_only:
        return replace(transition, disabled_by_next=(*transition.disabled_by_next, one.condition))
    if isinstance(one, Not):
        return replace(transition, disabled_by=(*transition.disabled_by, one.condition))
    return transition
