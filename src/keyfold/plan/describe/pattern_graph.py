"""A pattern as a graph, for pictures: its steps as declared, and the transitions between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from keyfold.plan.describe.phrases import expr_words, times_words
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition, automaton
from keyfold.plan.pattern.syntax import CONTIGUITY_SYNTAX, Atom, PatternSpec, Repeat, Sequence, parts


@dataclass(frozen=True)
class Step:
    """A step as declared: its name with its repetition, and its condition; a second "a" is "a (2)"."""

    name: str
    condition: str


@dataclass(frozen=True)
class Follows:
    """That one step may follow another: numbers of steps; None is the begin, or the match."""

    source: int | None
    target: int | None
    words: str


@dataclass(frozen=True)
class PatternGraph:
    """The steps, and which may follow which; the repetitions of a step are one node."""

    steps: tuple[Step, ...]
    follows: tuple[Follows, ...]


def pattern_graph(pattern: PatternSpec) -> PatternGraph:
    """The graph of a pattern."""
    made = automaton(pattern)
    return PatternGraph(tuple(_steps(pattern.sequence)), tuple(dict.fromkeys(_follows(made))))


def _steps(sequence: Sequence) -> list[Step]:
    found: Counter[str] = Counter()
    steps = []
    for step, times in _ordered_steps(sequence):
        found[step.name.lower()] += 1
        nth = found[step.name.lower()]
        title = f"{step.name}{times}{f' ({nth})' if nth > 1 else ''}"
        steps.append(Step(title, "any row" if step.condition is None else expr_words(step.condition)))
    return steps


def _ordered_steps(sequence: Sequence, times: str = "") -> list[tuple[Atom, str]]:
    """The steps in the order of the automaton's `written`."""
    if isinstance(sequence, Atom):
        return [(sequence, times)]
    own = times_words(sequence) if isinstance(sequence, Repeat) else ""
    return [found for part in parts(sequence) for found in _ordered_steps(part, own)]


def _follows(made: Automaton) -> list[Follows]:
    found = [Follows(None, made.written[first.target], "") for first in made.initial]
    for number, transitions in zip(made.written, made.transitions, strict=True):
        for transition in transitions:
            target = None if transition.target == ACCEPT else made.written[transition.target]
            found.append(Follows(number, target, _words(made, transition)))
    return found


def _words(made: Automaton, transition: Transition) -> str:
    disabling = (*transition.disabled_by, *transition.disabled_by_next)
    without = [f"no {c.name}" for c in map(made.conditions.__getitem__, disabling) if c.kind == "no"]
    if transition.target == ACCEPT:
        return ", ".join(without)
    return ", ".join([CONTIGUITY_SYNTAX[transition.contiguity], *without])
