"""A pattern as a graph, for pictures: its steps as declared, and the transitions between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from keyfold.plan.describe.phrases import expr_words, times_words
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition, automaton
from keyfold.plan.pattern.syntax import CONTIGUITY_SYNTAX, Atom, PatternSpec, Repeat, Sequence, parts


@dataclass(frozen=True)
class PatternStep:
    """A step: its name with its repetition, and the condition of its rows; a second "a" is "a (2)"."""

    name: str
    condition: str


@dataclass(frozen=True)
class PatternArrow:
    """That one step may follow another."""

    source: int | None
    """The number of a step; null is the begin."""
    target: int | None
    """The number of a step; null is the match."""
    words: str
    """How: `>>` (the next row that fits), `then` (the very next row), `any`; and what must not come."""


@dataclass(frozen=True)
class PatternGraph:
    """The steps, and which may follow which; the repetitions of a step are one node."""

    steps: tuple[PatternStep, ...]
    follows: tuple[PatternArrow, ...]


def pattern_graph(pattern: PatternSpec) -> PatternGraph:
    """The graph of a pattern."""
    made = automaton(pattern)
    return PatternGraph(tuple(_steps(pattern.sequence)), tuple(dict.fromkeys(_follows(made))))


def _steps(sequence: Sequence) -> list[PatternStep]:
    found: Counter[str] = Counter()
    steps = []
    for step, times in _ordered_steps(sequence):
        found[step.name.lower()] += 1
        nth = found[step.name.lower()]
        title = f"{step.name}{times}{f' ({nth})' if nth > 1 else ''}"
        steps.append(PatternStep(title, "any row" if step.condition is None else expr_words(step.condition)))
    return steps


def _ordered_steps(sequence: Sequence, times: str = "") -> list[tuple[Atom, str]]:
    """The steps in the order of the automaton's `written`."""
    if isinstance(sequence, Atom):
        return [(sequence, times)]
    own = times_words(sequence) if isinstance(sequence, Repeat) else ""
    return [found for part in parts(sequence) for found in _ordered_steps(part, own)]


def _follows(made: Automaton) -> list[PatternArrow]:
    found = [PatternArrow(None, made.written[first.target], "") for first in made.initial]
    for number, transitions in zip(made.written, made.transitions, strict=True):
        for transition in transitions:
            target = None if transition.target == ACCEPT else made.written[transition.target]
            found.append(PatternArrow(number, target, _words(made, transition)))
    return found


def _words(made: Automaton, transition: Transition) -> str:
    disabling = (*transition.disabled_by, *transition.disabled_by_next)
    without = [f"no {c.name}" for c in map(made.conditions.__getitem__, disabling) if c.kind == "no"]
    if transition.target == ACCEPT:
        return ", ".join(without)
    return ", ".join([CONTIGUITY_SYNTAX[transition.contiguity], *without])
