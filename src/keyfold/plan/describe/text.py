"""An app as text for people; `describe` also gives JSON (`as_json.py`) and a diagram (`mermaid.py`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from keyfold.plan import durations, sharing
from keyfold.plan.describe.as_json import to_dict
from keyfold.plan.describe.mermaid import mermaid
from keyfold.plan.describe.phrases import (
    connector_words,
    expr_words,
    initial_words,
    length_words,
    named_words,
    pattern_words,
    process_words,
    site_words,
    step_words,
    top_words,
    window_words,
)
from keyfold.plan.nodes import (
    AggregateSpec,
    AppSpec,
    Body,
    Columns,
    FoldSpec,
    Join,
    Lookup,
    Node,
    ProcessSpec,
    Source,
    TableSpec,
    TopSpec,
)
from keyfold.plan.pattern.automaton import automaton
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.tree import app_lookups, inputs, steps
from keyfold.plan.validate import arguments
from keyfold.plan.validate.sources import FUTURE_MS

_Row: TypeAlias = tuple[str, Sequence[str | int | None]]
"""A label and its lines; empty lines are left out."""

__all__ = ["describe", "text", "to_dict"]


def describe(spec: AppSpec, format: str = "text") -> str:
    """The app as "text", "json" or "mermaid"."""
    checked = arguments.one_of(format, ("text", "json", "mermaid"), "the format of describe", spec.name)
    if checked == "json":
        return json.dumps(to_dict(spec), indent=2, ensure_ascii=False)
    return mermaid(spec) if checked == "mermaid" else text(spec)


def text(spec: AppSpec) -> str:
    """The app as aligned blocks: app, streams, lookups, tables."""
    blocks = [
        _app_block(spec),
        *(_stream_block(spec, stream) for stream in spec.streams),
        *map(_lookup_block, app_lookups(spec)),
        *map(_table_block, spec.tables),
    ]
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"


def _app_block(spec: AppSpec) -> list[str]:
    return _block(
        "app",
        spec.name,
        spec.help,
        [
            ("every", [length_words(spec.every_ms)]),
            ("snapshot", [f"every {spec.snapshot_every} batches" if spec.snapshot_every else None]),
        ],
    )


def _stream_block(spec: AppSpec, stream: Source) -> list[str]:
    rows: list[_Row] = [
        ("source", [connector_words(stream.connector)]),
        ("schema", [stream.schema or "of the source"]),
        ("time", [_time(stream)]),
        ("log", [_log(spec, stream)]),
        ("at", [site_words(stream.site)]),
    ]
    return _block("stream", stream.name, stream.help, rows)


def _lookup_block(lookup: Lookup) -> list[str]:
    rows: list[_Row] = [
        ("source", [connector_words(lookup.connector)]),
        ("schema", [lookup.schema]),
        ("refresh", [length_words(lookup.refresh_ms)]),
        ("duplicates", [lookup.duplicates]),
        ("at", [site_words(lookup.site)]),
    ]
    return _block("lookup", lookup.name, lookup.help, rows)


def _log(spec: AppSpec, stream: Source) -> str | None:
    if stream.history_ms is not None:
        return f"of its own, history {durations.text(stream.history_ms)}"
    shared = sharing.is_shared(spec, stream)
    # What is not declared is shown where it differs from what most streams have.
    return "of its own" if shared else None if stream.shared is None else "none"


def _time(stream: Source) -> str:
    if stream.time is None:
        return "arrival"
    bound = "any" if stream.future_ms is None else durations.text(stream.future_ms)
    future = "" if stream.future_ms == FUTURE_MS else f", future {bound}"
    return f"{stream.time}, late {durations.text(stream.late_ms)}{future}"


def _table_block(table: TableSpec) -> list[str]:
    rows: list[_Row] = [
        ("from", _pipeline(table.input)),
        ("key", named_words(table.keys)),
        *_body_rows(table.body),
        ("ttl", [length_words(table.ttl_ms)]),
        ("emit", [None if table.emit == "changes" else table.emit]),
        ("keep", [length_words(table.keep_ms)]),
        ("idle", [length_words(table.idle_ms)]),
        ("was", [table.was] if table.was else []),
        ("initial", [None if table.initial is None else initial_words(table.initial)]),
        ("history", [length_words(table.history_ms)]),
        ("history", [connector_words(table.history_topic)] if table.history_topic else []),
        ("latency", [table.latency]),
        ("partitions", [table.partitions]),
        ("on_error", [table.on_error]),
        ("private", [", ".join(table.private) or None]),
        ("to", [f"{name}: {connector_words(sink)}" for name, sink in table.sinks]),
        ("at", [site_words(table.site)]),
    ]
    return _block("table", table.name, table.help, rows)


def _body_rows(body: Body) -> list[_Row]:
    match body:
        case AggregateSpec():
            window = None if body.window is None else window_words(body.window)
            return [("window", [window]), ("columns", _columns(body.columns))]
        case TopSpec():
            return [("keeps", [top_words(body)]), ("columns", _columns(body.columns))]
        case ProcessSpec():
            return [("process", [process_words(body)]), ("output", [body.output])]
        case PatternSpec():
            rows: list[_Row] = [("pattern", [pattern_words(body)]), ("steps", _steps(body))]
            return [*rows, ("columns", _columns(body.returns))]


def _block(kind: str, name: str, help: str, rows: Iterable[_Row]) -> list[str]:
    lines = [f"{kind} {name}", *(f"  {line}" for line in help.splitlines())]
    for label, values in rows:
        shown = [line for value in values if value for line in str(value).splitlines()]
        labels = [label, *[""] * len(shown)]
        lines += [f"  {head:<10}  {value}" for head, value in zip(labels, shown, strict=False)]
    return lines


def _pipeline(node: Node) -> list[str]:
    """The steps from the sources to the node, one per line; the inputs of a union or join are indented."""
    first, *rest = steps(node)
    arms = [line for arm in inputs(first) for line in _arm(_pipeline(arm))]
    of = ", of" if isinstance(first, Join) else " of" if arms else ""
    head = [f"{step_words(first)}{of}", *arms]
    return [*head, *(step_words(step) for step in rest)]


def _arm(lines: list[str]) -> list[str]:
    return [f"- {lines[0]}", *(f"  {line}" for line in lines[1:])]


def _columns(columns: Columns) -> list[str]:
    width = max((len(name) for name, _ in columns), default=0)
    lines = []
    for name, value in columns:
        first, *rest = _fold_lines(value) if isinstance(value, FoldSpec) else expr_words(value).splitlines()
        lines += [f"{name:<{width}}  {first}", *(f"{'':<{width}}  {line}" for line in rest)]
    return lines


def _steps(pattern: PatternSpec) -> list[str]:
    """The conditions of a pattern's steps."""
    found = automaton(pattern).conditions
    lines = [(c.name if c.kind != "no" else f"no {c.name}", c.expression) for c in found if c.kind != "until"]
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {'any row' if e is None else expr_words(e)}" for name, e in lines]


def _fold_lines(fold: FoldSpec) -> list[str]:
    parts = [("zero", fold.zero), ("update", fold.update), ("merge", fold.merge), ("retract", fold.retract)]
    parts.append(("migrate", fold.migrate))
    width = max(len(label) for label, named in parts if named)
    lines = [f"{label:<{width}}  {', '.join(named_words(named, '='))}" for label, named in parts if named]
    return [
        "fold",
        *lines,
        *([f"{'result':<{width}}  {expr_words(fold.result)}"] if fold.result is not None else []),
    ]
