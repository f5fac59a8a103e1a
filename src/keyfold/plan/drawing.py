"""A pattern as Mermaid: its steps, and what may follow what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from keyfold.plan import durations
from keyfold.plan.automaton import ACCEPT, Automaton, Way, automaton
from keyfold.plan.sequences import PatternSpec, Repeat, walk
from keyfold.plan.words import expr_words, times_words

_LINKS: Final = {"next": ">>", "strict": "then", "any": "any"}


def pattern_lines(name: str, pattern: PatternSpec, label: Callable[..., str]) -> list[str]:
    """The lines of a subgraph; `label` quotes text for Mermaid."""
    made = automaton(pattern)
    within = [] if pattern.within_ms is None else [f"within {durations.text(pattern.within_ms)}"]
    return [
        f"subgraph {name}[{label(' '.join(['pattern', *within]))}]",
        f"  {name}_begin(( ))",
        *(f"  {name}_{n}[{label(*_step(made, n, pattern))}]" for n in range(len(made.steps))),
        f"  {name}_end((({label('match')})))",
        *(f"  {line}" for line in dict.fromkeys(_ways(name, made, label))),
        "end",
    ]


def _step(made: Automaton, number: int, pattern: PatternSpec) -> list[str]:
    """The step's name, with how often it comes, and its condition."""
    name, condition = made.steps[number], made.conditions[number].expression
    times = [
        times_words(part)
        for part in walk(pattern.sequence)
        if isinstance(part, Repeat) and getattr(part.body, "name", None) == name
    ]
    return [f"{name}{' '.join(times)}", "any row" if condition is None else expr_words(condition)]


def _ways(name: str, made: Automaton, label: Callable[..., str]) -> list[str]:
    """Places of one step are drawn as one."""
    lines = [f"{name}_begin --> {name}_{made.positions[way.target]}" for way in made.begin]
    for number, ways in zip(made.positions, made.ways, strict=True):
        for way in ways:
            target = "end" if way.target == ACCEPT else str(made.positions[way.target])
            words = _words(made, way)
            lines.append(f"{name}_{number} -->{f'|{label(words)}|' if words else ''} {name}_{target}")
    return lines


def _words(made: Automaton, way: Way) -> str:
    nos = [n for n in (*way.ends, *way.at_once) if made.conditions[n].kind == "no"]
    without = [f"no {made.conditions[n].name}" for n in nos]
    if way.target == ACCEPT:
        return ", ".join(without)
    return ", ".join([_LINKS[way.link], *without])
