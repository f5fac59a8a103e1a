"""The syntax tree of a pattern: frozen data, steps and how one follows another.

`Contiguity` has Flink's three kinds: "strict" takes the very next row of the key, "relaxed" the next row that
satisfies the condition, and "any" (non-deterministic relaxed) every row that does. It belongs to the step it
leads to: when an optional step is left out, so is its contiguity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from keyfold.plan.nodes import Expr, Named, Site

Contiguity: TypeAlias = Literal["relaxed", "strict", "any"]
CONTIGUITY_SYNTAX: Final[dict[Contiguity, str]] = {"relaxed": ">>", "strict": "then", "any": "any"}
"""How each kind is written in a pattern."""
SkipKind: TypeAlias = Literal["past_last", "next", "none", "to_first", "to_last"]
Order: TypeAlias = Literal["event", "arrival"]


@dataclass(frozen=True)
class Atom:
    """A step: one row that satisfies the condition; None accepts any row."""

    name: str
    condition: Expr | None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class No:
    """A negation: no such row between its neighbours or, at the end of a pattern, before `within` expires."""

    name: str
    condition: Expr
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Chain:
    """Sequences that follow one another, each with the contiguity that leads to it."""

    first: Sequence
    rest: tuple[tuple[Contiguity, Sequence], ...]


@dataclass(frozen=True)
class Either:
    """An alternative: one of several sequences."""

    options: tuple[Sequence, ...]


@dataclass(frozen=True)
class Repeat:
    """A sequence repeated `least` to `most` times; a row that satisfies `until` ends the repetition.

    `between` is the contiguity of the repetitions. A greedy repetition takes precedence over what follows it.
    """

    body: Sequence
    least: int
    most: int | None
    greedy: bool = True
    between: Contiguity = "relaxed"
    until: Expr | None = None
    site: Site | None = field(default=None, compare=False)


Sequence: TypeAlias = Atom | No | Chain | Either | Repeat


@dataclass(frozen=True)
class PatternSpec:
    """A pattern whose matches are the rows of a table."""

    sequence: Sequence
    within_ms: int | None
    skip: SkipKind = "past_last"
    skip_to: str | None = None
    """The step named by `to_first` and `to_last`."""
    order: Order = "event"
    returns: Named = ()
    timeouts: bool = False
    limit: int = 10_000
    """The most partial matches that a key may have."""
    site: Site | None = field(default=None, compare=False)


def own_columns(*, timeouts: bool) -> tuple[str, ...]:
    """The columns of every match, beside its id and the columns that the pattern returns."""
    return ("started", "ended", "timed_out") if timeouts else ("started", "ended")


def parts(sequence: Sequence) -> tuple[Sequence, ...]:
    """The direct parts of a sequence."""
    if isinstance(sequence, Chain):
        return (sequence.first, *(part for _, part in sequence.rest))
    if isinstance(sequence, Either):
        return sequence.options
    return (sequence.body,) if isinstance(sequence, Repeat) else ()


def walk(sequence: Sequence) -> Iterator[Sequence]:
    """A sequence and all of its parts, recursively, in order."""
    yield sequence
    for part in parts(sequence):
        yield from walk(part)


def steps(sequence: Sequence) -> tuple[Atom, ...]:
    """The distinct steps of a sequence, in order."""
    return tuple({s.name.lower(): s for s in walk(sequence) if isinstance(s, Atom)}.values())


def negations(sequence: Sequence) -> tuple[No, ...]:
    """The distinct negations of a sequence, in order."""
    return tuple({s.name.lower(): s for s in walk(sequence) if isinstance(s, No)}.values())


def size(sequence: Sequence) -> int:
    """The number of positions that the automaton will have: one for each repetition of each step."""
    if isinstance(sequence, Repeat):
        most = max(sequence.least, 1) if sequence.most is None else sequence.most
        return most * size(sequence.body)
    return 1 if isinstance(sequence, Atom) else sum(map(size, parts(sequence)))


def optional(sequence: Sequence) -> bool:
    """Whether the sequence matches without any row."""
    if isinstance(sequence, Atom):
        return False
    if isinstance(sequence, Repeat):
        return sequence.least == 0 or optional(sequence.body)
    if isinstance(sequence, Either):
        return any(optional(option) for option in sequence.options)
    return all(optional(part) for part in parts(sequence))


def is_bounded(sequence: Sequence) -> bool:
    """Whether every partial match ends after a bounded number of rows, without the help of `within`."""
    for part in walk(sequence):
        if isinstance(part, No) or (
            isinstance(part, Chain) and any(contiguity != "strict" for contiguity, _ in part.rest)
        ):
            return False
        if isinstance(part, Repeat) and (part.most is None or (part.most > 1 and part.between != "strict")):
            return False
    return True
