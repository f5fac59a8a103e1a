"""A pattern as the table that the kernel walks through: what may come after each row that was taken.

A position is one place of a step in the pattern; a step that is repeated has several. Each has ways to the
positions that may follow it. The kernel keeps, for each partial match, the position it is at and which of its
ways are still alive: a row that came between may have ended some.
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
    Either,
    Link,
    No,
    PatternSpec,
    Repeat,
    Sequence,
    nos,
    size,
    steps,
)

ACCEPT: Final = -1
"""The target of a way that ends the pattern."""
MOST_POSITIONS: Final = 2000
# The kernel has a bit for each, and one of its own.
MOST_WAYS: Final = 63
# Each alternative that may be left out doubles the ways to what follows, also where these are the same.
_MOST_TRIED: Final = 5000


@dataclass(frozen=True)
class Way:
    """A way from one position to another.

    It dies with a row that it is not taken by, if it is strict; that one of `ends` is true for; that one of
    `at_once` is true for, if it is the first row; or that is taken by a way that goes first.
    """

    target: int
    link: Link = "next"
    ends: tuple[int, ...] = ()
    at_once: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    """Ways of the same position that go first: those that carry on a greedy repetition."""


@dataclass(frozen=True)
class Condition:
    """An expression on a row, and whose it is."""

    name: str
    expression: Expr | None
    kind: Literal["step", "no", "until"] = "step"
    site: Site | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """What it means that it is true."""
        if self.kind == "until":
            return f"{self.name} is true"
        return f"{self.name} came" if self.kind == "no" else self.name


@dataclass(frozen=True)
class Automaton:
    """Positions by their step's place in `steps`, the ways to begin with, and those of each position."""

    steps: tuple[str, ...]
    conditions: tuple[Condition, ...]
    """Those of the steps first, in the same order."""
    positions: tuple[int, ...]
    written: tuple[int, ...]
    """Which step of those that are written each position is of: a step that is repeated is written once."""
    begin: tuple[Way, ...]
    ways: tuple[tuple[Way, ...], ...]

    def plain(self) -> dict[str, object]:
        """As JSON data, for the kernel."""

        def listed(ways: Iterable[Way]) -> list[list[object]]:
            return [[w.target, w.link, list(w.ends), list(w.at_once), list(w.after)] for w in ways]

        return {
            "steps": self.steps,
            "conditions": [[c.name, c.words] for c in self.conditions],
            "positions": self.positions,
            "begin": listed(self.begin),
            "ways": [listed(ways) for ways in self.ways],
        }


@dataclass(frozen=True)
class _Take:
    step: int
    written: int
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
    # Before anything is unrolled: times=1_000_000_000 would not come to an end.
    if (found := size(pattern.sequence)) > MOST_POSITIONS:
        problem = f"the pattern is too large: its steps, with their repetitions, are {found}"
        hint = f"at most {MOST_POSITIONS}; count rows with a window instead: by(...).rolling(...)"
        raise BadOption(problem, where=where, hint=hint)
    program = _Program(pattern.sequence)
    takes = {at: one for at, one in enumerate(program.code) if isinstance(one, _Take)}
    place = {at: number for number, at in enumerate(takes)}
    begin = tuple(replace(w, ends=(), at_once=()) for w in _ways(program.code, 0, place, where))
    ways = tuple(_ways(program.code, at + 1, place, where) for at in takes)
    for way in (w for out in ways for w in out if w.target == ACCEPT and w.at_once):
        name = program.conditions[way.at_once[0]].name
        problem = f"the pattern may end with kf.no {name!r} as its very next row, which may never come"
        raise BadOption(
            problem, where=where, hint="a step after it that must come, or >> kf.no(...) with within"
        )
    return Automaton(
        tuple(program.steps),
        tuple(program.conditions),
        tuple(take.step for take in takes.values()),
        tuple(take.written for take in takes.values()),
        begin,
        ways,
    )


class _Program:
    """A pattern as instructions: what to take, and where to go on."""

    def __init__(self, sequence: Sequence) -> None:
        self.code: list[_Instruction] = []
        atoms = steps(sequence)
        self.steps = [atom.name for atom in atoms]
        self.conditions = [
            *(Condition(atom.name, atom.condition, site=atom.site) for atom in atoms),
            *(Condition(no.name, no.condition, "no", no.site) for no in nos(sequence)),
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


def _ways(code: list[_Instruction], at: int, place: dict[int, int], where: object) -> tuple[Way, ...]:
    """What may be taken from an instruction on, those first that go first."""
    found: list[Way] = []
    known: dict[Way, int] = {}
    tried = 0

    def add(way: Way) -> list[int]:
        if way not in known:
            known[way] = len(found)
            found.append(way)
            if len(found) > MOST_WAYS:
                _refuse_ways(f"more than {MOST_WAYS} steps may follow one row", where)
        return [known[way]]

    def go(at: int, way: Way, seen: frozenset[int]) -> list[int]:
        nonlocal tried
        tried += 1
        if tried > _MOST_TRIED:
            _refuse_ways("thousands of ways lead from one row to the next", where)
        while at < len(code):
            one = code[at]
            if isinstance(one, _Take):
                return add(replace(way, target=place[at], ends=(*way.ends, *one.until)))
            if isinstance(one, _Split):
                # A repetition of what may be empty comes back without a row.
                if at in seen:
                    return []
                inner = seen | {at}
                first = go(at + 1, way, inner)
                later = replace(way, after=(*way.after, *first)) if one.greedy else way
                return first + [n for other in one.others for n in go(other, later, inner)]
            if isinstance(one, _Near):
                way = replace(way, link=one.link)
            elif isinstance(one, _Not) and one.at_once:
                way = replace(way, at_once=(*way.at_once, one.condition))
            elif isinstance(one, _Not):
                way = replace(way, ends=(*way.ends, one.condition))
            at = one.to if isinstance(one, _Jump) else at + 1
        return add(replace(way, target=ACCEPT))

    go(at, Way(ACCEPT), frozenset())
    return tuple(found)


def _refuse_ways(why: str, where: object) -> NoReturn:
    hint = "fewer steps that may be left out, one after the other, or fewer alternatives"
    raise BadOption(f"the pattern is too large: {why}", where=where, hint=hint)
