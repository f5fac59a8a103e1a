"""A pattern as a program: instructions that take a row, branch, or constrain the next row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import Expr, Site
from keyfold.plan.pattern.syntax import (
    Atom,
    Chain,
    Contiguity,
    Either,
    No,
    Repeat,
    Sequence,
    negations,
    steps,
)


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
class Take:
    """Takes a row that satisfies the step's condition."""

    step: int
    written: int
    until: tuple[int, ...]


@dataclass
class Split:
    """Continues at the next instruction and at others; a greedy split prefers the next."""

    others: list[int]
    greedy: bool


@dataclass(frozen=True)
class Near:
    """Sets the contiguity of the next row."""

    contiguity: Contiguity


@dataclass(frozen=True)
class Not:
    """Forbids rows before the next matched row: any of them, or only the very next."""

    condition: int
    next_only: bool


@dataclass
class Jump:
    """Continues at another instruction."""

    to: int


Instruction: TypeAlias = Take | Split | Near | Not | Jump


class Program:
    """The instructions of a pattern, and the conditions that they refer to by number."""

    def __init__(self, sequence: Sequence) -> None:
        self.code: list[Instruction] = []
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
            self.code.append(Take(self._numbers[sequence.name.lower()], self._written, self._until))
            self._written += 1
        elif isinstance(sequence, No):
            self.code.append(Not(self._numbers[sequence.name.lower()], next_only=False))
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
                self.code.append(Not(self._numbers[part.name.lower()], contiguity == "strict"))
            else:
                self.code.append(Near(contiguity))
                self._add(part)

    def _either(self, either: Either) -> None:
        split = Split([], greedy=False)
        self.code.append(split)
        ends = []
        for number, option in enumerate(either.options):
            if number:
                split.others.append(len(self.code))
            self._add(option)
            ends.append(Jump(0))
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
                exits.append(Split([], repeat.greedy))
                self.code.append(exits[-1])
            if number:
                self.code.append(Near(repeat.between))
            first = len(self.code)
            self._written = written
            self._add(repeat.body)
        if repeat.most is None:
            exits.append(Split([], repeat.greedy))
            self.code += [exits[-1], Near(repeat.between), Jump(first)]
        for split in exits:
            split.others.append(len(self.code))
        self._until = before
