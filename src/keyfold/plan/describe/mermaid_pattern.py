"""A pattern as a Mermaid subgraph: its steps as declared, and the transitions between them."""

from __future__ import annotations

from collections.abc import Callable

from keyfold.plan import durations
from keyfold.plan.describe.pattern_graph import PatternArrow, pattern_graph
from keyfold.plan.pattern.syntax import PatternSpec


def pattern_lines(name: str, pattern: PatternSpec, label: Callable[..., str]) -> list[str]:
    """The lines of a subgraph; `label` quotes text for Mermaid."""
    graph = pattern_graph(pattern)
    within = [] if pattern.within_ms is None else [f"within {durations.text(pattern.within_ms)}"]
    return [
        f"subgraph {name}[{label(' '.join(['pattern', *within]))}]",
        f"  {name}_begin(( ))",
        *(f"  {name}_{n}[{label(one.name, one.condition)}]" for n, one in enumerate(graph.steps)),
        f"  {name}_end((({label('match')})))",
        *(f"  {_line(name, one, label)}" for one in graph.follows),
        "end",
    ]


def _line(name: str, follows: PatternArrow, label: Callable[..., str]) -> str:
    source = "begin" if follows.source is None else follows.source
    target = "end" if follows.target is None else follows.target
    arrow = f"-->|{label(follows.words)}|" if follows.words else "-->"
    return f"{name}_{source} {arrow} {name}_{target}"
