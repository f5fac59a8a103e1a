"""What a pattern declares, as frozen data: steps, and how one follows another.

`Link` is how near the next row must be: "next" is the next one that fits, "strict" the very next row of the
key, "any" each one that fits. It belongs to what it leads to: where that is left out, it has no say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from keyfold.plan.nodes import Expr, Named, Site

Link: TypeAlias = Literal["next", "strict", "any"]
LINKS: Final[dict[Link, str]] = {"next": ">>", "strict": "then", "any": "any"}
"""As a pattern is written with them."""
SkipKind: TypeAlias = Literal["past_last", "next", "none", "to_first", "to_last"]
Order: TypeAlias = Literal["event", "arrival"]


@dataclass(frozen=True)
class Atom:
    """One row for which a condition is true; None is any row."""

    name: str
    condition: Expr | None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class No:
    """No row between the rows before and after it; at the end of a pattern, none within its time."""

    name: str
    condition: Expr
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Chain:
    """One sequence after another."""

    first: Sequence
    rest: tuple[tuple[Link, Sequence], ...]


@dataclass(frozen=True)
class Either:
    """One of several sequences."""

    options: tuple[Sequence, ...]


@dataclass(frozen=True)
class Repeat:
    """A sequence again and again, `between` how near; a row for which `until` is true ends it.

    A greedy one takes all it can before what follows it gets a row.
    """

    body: Sequence
    least: int
    most: int | None
    greedy: bool = True
    between: Link = "next"
    until: Expr | None = None
    site: Site | None = field(default=None, compare=False)


Sequence: TypeAlias = Atom | No | Chain | Either | Repeat


@dataclass(frozen=True)
class PatternSpec:
    """A pattern that a table's rows are matches of."""

    sequence: Sequence
    within_ms: int | None
    skip: SkipKind = "past_last"
    skip_to: str | None = None
    """The step that `to_first` and `to_last` name."""
    order: Order = "event"
    returns: Named = ()
    timeouts: bool = False
    limit: int = 10_000
    """How many partial matches a key may have."""
    site: Site | None = field(default=None, compare=False)


def own_columns(*, timeouts: bool) -> tuple[str, ...]:
    """What a match shows beside its identity and what it returns."""
    return ("started", "ended", "timed_out") if timeouts else ("started", "ended")


def parts(sequence: Sequence) -> tuple[Sequence, ...]:
    """What a sequence is made of."""
    if isinstance(sequence, Chain):
        return (sequence.first, *(part for _, part in sequence.rest))
    if isinstance(sequence, Either):
        return sequence.options
    return (sequence.body,) if isinstance(sequence, Repeat) else ()


def walk(sequence: Sequence) -> Iterator[Sequence]:
    """A sequence and all that it is made of, in order."""
    yield sequence
    for part in parts(sequence):
        yield from walk(part)


def steps(sequence: Sequence) -> tuple[Atom, ...]:
    """The steps that take rows, each once, in order."""
    return tuple({s.name.lower(): s for s in walk(sequence) if isinstance(s, Atom)}.values())


def nos(sequence: Sequence) -> tuple[No, ...]:
    """What must not come, each once, in order."""
    return tuple({s.name.lower(): s for s in walk(sequence) if isinstance(s, No)}.values())


def size(sequence: Sequence) -> int:
    """How many places its steps have, each time that one is repeated a place of its own."""
    if isinstance(sequence, Repeat):
        most = max(sequence.least, 1) if sequence.most is None else sequence.most
        return most * size(sequence.body)
    return 1 if isinstance(sequence, Atom) else sum(map(size, parts(sequence)))


def optional(sequence: Sequence) -> bool:
    """Whether it can be matched without a row."""
    if isinstance(sequence, Atom):
        return False
    if isinstance(sequence, Repeat):
        return sequence.least == 0 or optional(sequence.body)
    if isinstance(sequence, Either):
        return any(optional(option) for option in sequence.options)
    return all(optional(part) for part in parts(sequence))


def bounded(sequence: Sequence) -> bool:
    """Whether each row of a key ends what it does not carry on, and so many rows end it in any case."""
    for part in walk(sequence):
        if isinstance(part, No) or (
            isinstance(part, Chain) and any(link != "strict" for link, _ in part.rest)
        ):
            return False
        if isinstance(part, Repeat) and (part.most is None or (part.most > 1 and part.between != "strict")):
            return False
    return True
