"""A pattern compiled to the automaton that the kernel runs: which transitions may follow each matched row.

A position is one occurrence of a step in the pattern; a repeated step has several. Each position has
transitions to the positions that may follow it. For each partial match the kernel keeps its position and the
set of transitions that are still enabled: a row in between may have disabled some.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NoReturn, TypeAlias

from keyfold.errors import BadOption
from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import Expr, Site
from keyfold.plan.pattern.syntax import (
    Atom,
    Chain,
    Contiguity,
    Either,
    No,
    PatternSpec,
    Repeat,
    Sequence,
    negations,
    size,
    steps,
)

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
class Condition:
    """A condition on a row, and the part of the pattern that it belongs to."""

    name: str
    expression: Expr | None
    kind: Literal["step", "no", "until"] = "step"
    site: Site | None = field(default=None, compare=False)

    @property
    def phrase(self) -> str:
        """What has happened when a row satisfies it."""
        if self.kind == "until":
            return f"{self.name} is true"
        return f"{self.name} came" if self.kind == "no" else self.name


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

        def listed(transitions: Iterable[Transition]) -> list[list[object]]:
            return [
                [t.target, t.contiguity, list(t.disabled_by), list(t.disabled_by_next), list(t.yields_to)]
                for t in transitions
            ]

        return {
            "steps": self.steps,
            "conditions": [[c.name, c.phrase] for c in self.conditions],
            "positions": self.positions,
            "initial": listed(self.initial),
            "transitions": [listed(transitions) for transitions in self.transitions],
        }


@dataclass(frozen=True)
class _Take:
    """Takes a row that satisfies the step's condition."""

    step: int
    written: int
    until: tuple[int, ...]


@dataclass
class _Split:
    """Continues at the next instruction and at others; a greedy split prefers the next."""

    others: list[int]
    greedy: bool


@dataclass(frozen=True)
class _Near:
    """Sets the contiguity of the next row."""

    contiguity: Contiguity


@dataclass(frozen=True)
class _Not:
    """Forbids rows before the next matched row: any of them, or only the very next."""

    condition: int
    next_only: bool


@dataclass
class _Jump:
    to: int


_Instruction: TypeAlias = _Take | _Split | _Near | _Not | _Jump


def automaton(pattern: PatternSpec, where: object = None) -> Automaton:
    """Compiles a pattern."""
    # Before anything is unrolled: times=1_000_000_000 would not come to an end.
    if (found := size(pattern.sequence)) > MAX_POSITIONS:
        problem = f"the pattern is too large: its steps, with their repetitions, are {found}"
        hint = f"at most {MAX_POSITIONS}; count rows with a window instead: by(...).rolling(...)"
        raise BadOption(problem, where=where, hint=hint)
    program = _Program(pattern.sequence)
    takes = {at: one for at, one in enumerate(program.code) if isinstance(one, _Take)}
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
            problem = f"the pattern may end with kf.no {name!r} as its very next row, which may never come"
            hint = "a step after it that must come, or >> kf.no(...) with within"
            raise BadOption(problem, where=where, hint=hint)


class _Program:
    """A pattern as a program: instructions that take a row, branch or constrain the next row."""

    def __init__(self, sequence: Sequence) -> None:
        self.code: list[_Instruction] = []
        atoms = steps(sequence)
        self.steps = [atom.name for atom in atoms]
        self.conditions = [
            *(Condition(atom.name, atom.condition, site=atom.site) for atom in atoms),
            *(Condition(no.name, no.condition, "no", no.site) for no in negations(sequence)),
        ]
        self._numbers = {c.name.lower(): number for number, c in enumerate(self.conditions)}
        self._until: tuple[int, ...] = ()
        self._written = 0
        self._add(sequence)

    def _add(self, sequence: Sequence) -> None:
        if isinstance(sequence, Atom):
            self.code.append(_Take(self._numbers[sequence.name.lower()], self._written, self._until))
            self._written += 1
        elif isinstance(sequence, No):
            self.code.append(_Not(self._numbers[sequence.name.lower()], next_only=False))
        elif isinstance(sequence, Chain):
            self._chain(sequence)
        elif isinstance(sequence, Either):
            self._either(sequence)
        else:
            self._repeat(sequence)

    def _chain(self, chain: Chain) -> None:
        self._add(chain.first)
        for contiguity, part in chain.rest:
            if isinstance(part, No):
                self.code.append(_Not(self._numbers[part.name.lower()], contiguity == "strict"))
            else:
                self.code.append(_Near(contiguity))
                self._add(part)

    def _either(self, either: Either) -> None:
        split = _Split([], greedy=False)
        self.code.append(split)
        ends = []
        for number, option in enumerate(either.options):
            if number:
                split.others.append(len(self.code))
            self._add(option)
            ends.append(_Jump(0))
            self.code.append(ends[-1])
        for end in ends:
            end.to = len(self.code)

    def _repeat(self, repeat: Repeat) -> None:
        before, written = self._until, self._written
        if repeat.until is not None:
            name = f"until {expr_words(repeat.until)}"
            self.conditions.append(Condition(name, repeat.until, "until", repeat.site))
            self._until = (*before, len(self.conditions) - 1)
        most = max(repeat.least, 1) if repeat.most is None else repeat.most
        exits = []
        for number in range(most):
            if number >= repeat.least:
                exits.append(_Split([], repeat.greedy))
                self.code.append(exits[-1])
            if number:
                self.code.append(_Near(repeat.between))
            first = len(self.code)
            self._written = written
            self._add(repeat.body)
        if repeat.most is None:
            exits.append(_Split([], repeat.greedy))
            self.code += [exits[-1], _Near(repeat.between), _Jump(first)]
        for split in exits:
            split.others.append(len(self.code))
        self._until = before


class _Transitions:
    """The transitions that are reachable from an instruction, those with precedence first."""

    def __init__(self, code: list[_Instruction], positions: dict[int, int], where: object) -> None:
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
            if isinstance(one, _Take):
                disabled_by = (*transition.disabled_by, *one.until)
                return self._add(replace(transition, target=self._positions[at], disabled_by=disabled_by))
            if isinstance(one, _Split):
                return self._split(at, one, transition, seen)
            transition = _constrained(transition, one)
            at = one.to if isinstance(one, _Jump) else at + 1
        return self._add(replace(transition, target=ACCEPT))

    def _split(self, at: int, split: _Split, transition: Transition, seen: frozenset[int]) -> list[int]:
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


def _constrained(transition: Transition, one: _Near | _Not | _Jump) -> Transition:
    """The transition with the constraint that an instruction adds."""
    if isinstance(one, _Near):
        return replace(transition, contiguity=one.contiguity)
    if isinstance(one, _Not) and one.next_only:
        return replace(transition, disabled_by_next=(*transition.disabled_by_next, one.condition))
    if isinstance(one, _Not):
        return replace(transition, disabled_by=(*transition.disabled_by, one.condition))
    return transition
