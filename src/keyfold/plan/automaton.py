"""A pattern as the table that the kernel walks through: what may come after each row that was taken.

A position is one place of a step in the pattern; a step that is repeated has several. Each has edges to the
positions that may follow it. The kernel keeps, for each partial match, the position it is at and which of its
edges are still alive: a row that came between may have ended some.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from keyfold.errors import BadOption
from keyfold.plan.nodes import Expr
from keyfold.plan.sequences import Atom, Chain, Either, Link, No, PatternSpec, Repeat, Sequence, nos, steps
from keyfold.plan.words import expr_words

ACCEPT: Final = -1
"""The target of an edge that ends the pattern."""
MOST_POSITIONS: Final = 2000
# The kernel has a bit for each, and one of its own.
MOST_EDGES: Final = 63


@dataclass(frozen=True)
class Edge:
    """A way from one position to another.

    It dies with a row that it is not taken by, if it is strict; that one of `ends` is true for; that one of
    `at_once` is true for, if it is the first row; or that is taken by an edge that goes first.
    """

    target: int
    link: Link = "next"
    ends: tuple[int, ...] = ()
    at_once: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """Edges of the same position that go first: those that carry on a greedy repetition."""


@dataclass(frozen=True)
class Condition:
    """An expression on a row, and whose it is."""

    name: str
    expression: Expr | None
    kind: Literal["step", "no", "until"] = "step"

    @property
    def words(self) -> str:
        """What it means that it is true."""
        if self.kind == "until":
            return f"{self.name} is true"
        return f"{self.name} came" if self.kind == "no" else self.name


@dataclass(frozen=True)
class Automaton:
    """Positions by their step's place in `steps`, the edges to begin with, and those of each position."""

    steps: tuple[str, ...]
    conditions: tuple[Condition, ...]
    """Those of the steps first, in the same order."""
    positions: tuple[int, ...]
    begin: tuple[Edge, ...]
    edges: tuple[tuple[Edge, ...], ...]

    def plain(self) -> dict[str, object]:
        """As JSON data, for the kernel."""

        def listed(edges: Iterable[Edge]) -> list[list[object]]:
            return [[e.target, e.link, list(e.ends), list(e.at_once), list(e.after)] for e in edges]

        return {
            "steps": self.steps,
            "conditions": [[c.name, c.words] for c in self.conditions],
            "positions": self.positions,
            "begin": listed(self.begin),
            "edges": [listed(edges) for edges in self.edges],
        }


@dataclass(frozen=True)
class _Take:
    step: int
    until: tuple[int, ...]


@dataclass
class _Split:
    """Goes on at the next instruction, and at others; a greedy one prefers the next."""

    others: list[int]
    greedy: bool


@dataclass(frozen=True)
class _Near:
    link: Link


@dataclass(frozen=True)
class _Not:
    condition: int
    at_once: bool


@dataclass
class _Jump:
    to: int


_Instruction: TypeAlias = _Take | _Split | _Near | _Not | _Jump


def automaton(pattern: PatternSpec, where: object = None) -> Automaton:
    """The table of a pattern."""
    program = _Program(pattern.sequence)
    takes = [at for at, one in enumerate(program.code) if isinstance(one, _Take)]
    if len(takes) > MOST_POSITIONS:
        problem = f"the pattern is too large: its steps, with their repetitions, are {len(takes)}"
        hint = f"at most {MOST_POSITIONS}; count rows with a window instead: by(...).rolling(...)"
        raise BadOption(problem, where=where, hint=hint)
    place = {at: number for number, at in enumerate(takes)}
    begin = tuple(replace(e, ends=(), at_once=()) for e in _edges(program.code, 0, place))
    edges = tuple(_edges(program.code, at + 1, place) for at in takes)
    if max(map(len, (begin, *edges))) > MOST_EDGES:
        raise BadOption(
            f"the pattern is too large: more than {MOST_EDGES} steps may follow one row",
            where=where,
            hint="fewer steps that may be left out, or alternatives",
        )
    for edge in (e for out in edges for e in out if e.target == ACCEPT and e.at_once):
        name = program.conditions[edge.at_once[0]].name
        problem = f"the pattern may end with kf.no {name!r} as its very next row, which may never come"
        raise BadOption(
            problem, where=where, hint="a step after it that must come, or >> kf.no(...) with within"
        )
    positions = tuple(one.step for one in program.code if isinstance(one, _Take))
    return Automaton(tuple(program.steps), tuple(program.conditions), positions, begin, edges)


class _Program:
    """A pattern as instructions: what to take, and where to go on."""

    def __init__(self, sequence: Sequence) -> None:
        self.code: list[_Instruction] = []
        atoms = steps(sequence)
        self.steps = [atom.name for atom in atoms]
        self.conditions = [
            *(Condition(atom.name, atom.condition) for atom in atoms),
            *(Condition(no.name, no.condition, "no") for no in nos(sequence)),
        ]
        self._numbers = {c.name.lower(): number for number, c in enumerate(self.conditions)}
        self._until: tuple[int, ...] = ()
        self._add(sequence)

    def _add(self, sequence: Sequence) -> None:
        if isinstance(sequence, Atom):
            self.code.append(_Take(self._numbers[sequence.name.lower()], self._until))
        elif isinstance(sequence, No):
            self.code.append(_Not(self._numbers[sequence.name.lower()], at_once=False))
        elif isinstance(sequence, Chain):
            self._chain(sequence)
        elif isinstance(sequence, Either):
            self._either(sequence)
        else:
            self._repeat(sequence)

    def _chain(self, chain: Chain) -> None:
        self._add(chain.first)
        for link, part in chain.rest:
            if isinstance(part, No):
                self.code.append(_Not(self._numbers[part.name.lower()], link == "strict"))
            else:
                self.code.append(_Near(link))
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
        before = self._until
        if repeat.until is not None:
            self.conditions.append(Condition(f"until {expr_words(repeat.until)}", repeat.until, "until"))
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
            self._add(repeat.body)
        if repeat.most is None:
            exits.append(_Split([], repeat.greedy))
            self.code += [exits[-1], _Near(repeat.between), _Jump(first)]
        for split in exits:
            split.others.append(len(self.code))
        self._until = before


def _edges(code: list[_Instruction], at: int, place: dict[int, int]) -> tuple[Edge, ...]:
    """What may be taken from an instruction on, those first that go first."""
    found: list[Edge] = []
    known: dict[Edge, int] = {}

    def add(edge: Edge) -> list[int]:
        if edge not in known:
            known[edge] = len(found)
            found.append(edge)
        return [known[edge]]

    def go(at: int, edge: Edge, seen: frozenset[int]) -> list[int]:
        while at < len(code):
            one = code[at]
            if isinstance(one, _Take):
                return add(replace(edge, target=place[at], ends=(*edge.ends, *one.until)))
            if isinstance(one, _Split):
                # A repetition of what may be empty comes back without a row.
                if at in seen:
                    return []
                inner = seen | {at}
                first = go(at + 1, edge, inner)
                later = replace(edge, after=(*edge.after, *first)) if one.greedy else edge
                return first + [n for other in one.others for n in go(other, later, inner)]
            if isinstance(one, _Near):
                edge = replace(edge, link=one.link)
            elif isinstance(one, _Not) and one.at_once:
                edge = replace(edge, at_once=(*edge.at_once, one.condition))
            elif isinstance(one, _Not):
                edge = replace(edge, ends=(*edge.ends, one.condition))
            at = one.to if isinstance(one, _Jump) else at + 1
        return add(replace(edge, target=ACCEPT))

    go(at, Edge(ACCEPT), frozenset())
    return tuple(found)
