"""A pattern as a Mermaid subgraph: its steps as declared, and the transitions between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from keyfold.plan import durations
from keyfold.plan.describe.phrases import expr_words, times_words
from keyfold.plan.pattern.automaton import ACCEPT, Automaton, Transition, automaton
from keyfold.plan.pattern.syntax import CONTIGUITY_SYNTAX, Atom, PatternSpec, Repeat, Sequence, parts


def pattern_lines(name: str, pattern: PatternSpec, label: Callable[..., str]) -> list[str]:
    """The lines of a subgraph; `label` quotes text for Mermaid."""
    made = automaton(pattern)
    within = [] if pattern.within_ms is None else [f"within {durations.text(pattern.within_ms)}"]
    return [
        f"subgraph {name}[{label(' '.join(['pattern', *within]))}]",
        f"  {name}_begin(( ))",
        *(f"  {name}_{n}[{label(*words)}]" for n, words in enumerate(_steps(pattern.sequence))),
        f"  {name}_end((({label('match')})))",
        *(f"  {line}" for line in dict.fromkeys(_transitions(name, made, label))),
        "end",
    ]


def _steps(sequence: Sequence) -> list[list[str]]:
    """Each step as declared, with its repetition and its condition; a second "a" is "a (2)"."""
    found: Counter[str] = Counter()
    lines = []
    for step, times in _ordered_steps(sequence):
        found[step.name.lower()] += 1
        nth = found[step.name.lower()]
        title = f"{step.name}{times}{f' ({nth})' if nth > 1 else ''}"
        lines.append([title, "any row" if step.condition is None else expr_words(step.condition)])
    return lines


def _ordered_steps(sequence: Sequence, times: str = "") -> list[tuple[Atom, str]]:
    """The steps in the order of the automaton's `written`."""
    if isinstance(sequence, Atom):
        return [(sequence, times)]
    own = times_words(sequence) if isinstance(sequence, Repeat) else ""
    return [found for part in parts(sequence) for found in _ordered_steps(part, own)]


def _transitions(name: str, made: Automaton, label: Callable[..., str]) -> list[str]:
    """The transitions; the repetitions of a step are drawn as one node."""
    lines = [f"{name}_begin --> {name}_{made.written[first.target]}" for first in made.initial]
    for number, transitions in zip(made.written, made.transitions, strict=True):
        for transition in transitions:
            target = "end" if transition.target == ACCEPT else str(made.written[transition.target])
            words = _words(made, transition)
            lines.append(f"{name}_{number} -->{f'|{label(words)}|' if words else ''} {name}_{target}")
    return lines


def _words(made: Automaton, transition: Transition) -> str:
    disabling = (*transition.disabled_by, *transition.disabled_by_next)
    without = [f"no {c.name}" for c in map(made.conditions.__getitem__, disabling) if c.kind == "no"]
    if transition.target == ACCEPT:
        return ", ".join(without)
    return ", ".join([CONTIGUITY_SYNTAX[transition.contiguity], *without])
