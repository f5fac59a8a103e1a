"""An app as a Mermaid flowchart.

Streams are stadiums, steps boxes, lookups subroutine boxes, tables cylinders, sinks parallelograms; a pattern
is a subgraph with its automaton.
"""

from __future__ import annotations

import re
from typing import Final

from keyfold.plan.describe.mermaid_pattern import pattern_lines
from keyfold.plan.describe.phrases import (
    connector_words,
    expr_words,
    lookup_words,
    named_words,
    process_words,
    step_words,
    top_words,
    window_words,
)
from keyfold.plan.nodes import (
    AppSpec,
    Changes,
    Enrich,
    Expr,
    FoldSpec,
    Lookup,
    LookupJoin,
    Node,
    ProcessSpec,
    Source,
    TableSpec,
    TopSpec,
)
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.tree import app_lookups, inputs, steps

# Mermaid interprets quotes, markup and backticks inside labels; as character codes they are shown as is.
_SPECIAL: Final = re.compile(r"[\"#&<>`{}\[\]|\\;]")
_LONGEST: Final = 120


def mermaid(spec: AppSpec) -> str:
    """The app as a flowchart from left to right."""
    return "\n".join(["flowchart LR", *(f"  {line}" for line in _Drawing(spec).lines)]) + "\n"


def label(*lines: str) -> str:
    """A quoted label; each argument is a line of it."""
    return '"' + "<br>".join(_escape(line) for line in lines) + '"'


class _Drawing:
    """Collects lines; each node is drawn once, even if several tables read it."""

    def __init__(self, spec: AppSpec) -> None:
        self.lines: list[str] = []
        self._ids: dict[int, str] = {}
        for stream in spec.streams:
            self._draw(stream)
        for lookup in app_lookups(spec):
            self.lines.append(f"{_lookup_id(lookup)}[[{label(lookup.name, lookup_words(lookup))}]]")
        for table in spec.tables:
            self._table(table)

    def _draw(self, node: Node) -> str:
        for step in steps(node):
            if id(step) not in self._ids:
                self._ids[id(step)] = self._drawn(step)
        return self._ids[id(node)]

    def _drawn(self, node: Node) -> str:
        if isinstance(node, Source):
            name = f"stream_{node.name}"
            self.lines.append(f"{name}([{label(node.name, connector_words(node.connector))}])")
            return name
        # Only unions and joins have inputs that are not drawn yet, so the recursion is shallow.
        origins = [self._ids.get(id(origin)) or self._draw(origin) for origin in inputs(node)]
        origins += _sides(node)
        name = f"step_{len(self._ids)}"
        self.lines.append(f"{name}[{label(step_words(node))}]")
        self.lines += [f"{origin} --> {name}" for origin in origins]
        return name

    def _table(self, table: TableSpec) -> None:
        origin, name = self._draw(table.input), f"table_{table.name}"
        pattern = table.body if isinstance(table.body, PatternSpec) else None
        shown = table.columns if pattern is None else pattern.returns
        columns = [f"{column}: {_column(value)}" for column, value in shown]
        self.lines.append(f"{name}[({label(table.name, *columns)})]")
        self.lines.append(f"{origin} -->|{label(*_edge(table))}| {name}")
        if pattern is not None:
            self.lines += pattern_lines(f"pattern_{table.name}", pattern, label)
            self.lines.append(f"pattern_{table.name} -.-> {name}")
        for number, (named, sink) in enumerate(table.sinks):
            self.lines.append(f"{name}_sink_{number}[/{label(named, connector_words(sink))}/]")
            self.lines.append(f"{name} --> {name}_sink_{number}")


def _sides(node: Node) -> list[str]:
    """The tables and lookups that a step reads; they are declared, and so drawn, before it."""
    if isinstance(node, Changes | Enrich):
        return [f"table_{node.table}"]
    return [_lookup_id(node.lookup)] if isinstance(node, LookupJoin) else []


def _lookup_id(lookup: Lookup) -> str:
    return f"lookup_{lookup.name.lower()}"


def _edge(table: TableSpec) -> list[str]:
    """The key and the windows; retention options are only in the text."""
    lines = [f"by {', '.join(named_words(table.keys))}"]
    if table.window is not None:
        lines.append(window_words(table.window))
    if isinstance(table.body, TopSpec):
        lines.append(top_words(table.body))
    if isinstance(table.body, ProcessSpec):
        lines.append(f"process {process_words(table.body)}")
    return lines if table.emit == "changes" else [*lines, f"emit {table.emit}"]


def _column(value: Expr | FoldSpec) -> str:
    return "fold" if isinstance(value, FoldSpec) else expr_words(value)


def _escape(text: str) -> str:
    flat = " ".join(text.split())
    short = flat if len(flat) <= _LONGEST else flat[: _LONGEST - 3] + "..."
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", short)
