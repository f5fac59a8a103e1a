"""Traces what a pattern does with each row of a file, by running it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from keyfold.cli.reports import rows_file
from keyfold.errors import BadOption, choice, did_you_mean
from keyfold.plan import nodes, tree
from keyfold.plan.nodes import AppSpec, TableSpec
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.pattern.syntax import steps as sequence_steps

_LATER: Final = "9000-01-01T00:00:00Z"
"""An event time after which no match is open."""


def explain_rows(spec: AppSpec, table: str, file: str, stream: str | None) -> list[dict[str, Any]]:
    """One entry per row and per timeout; grouped by key, in order."""
    from keyfold.engine.compile import pattern
    from keyfold.testing import drive

    wanted = _pattern(spec, table)
    into = _stream(wanted, stream)
    rows, others = rows_file.split(rows_file.rows_of(file), into)
    if others:
        print(f"ignored, not columns of stream {into.name}: {', '.join(others)}", file=sys.stderr)
    needed = _tables_needed(spec, wanted)
    only = replace(spec, tables=tuple(t for t in spec.tables if t.name in needed))
    streams = {s.name: s for t in only.tables for s in tree.sources(t.input)}
    with pattern.trace_patterns() as traced, drive(only) as d:
        d.push(into.name, rows)
        # Rows are buffered until the watermark of all streams that are read together has passed them.
        for name in (s.name for s in streams.values() if s.time is not None):
            d.advance(name, _LATER)
        lines = traced(wanted.name)
        refused = [*untraced_rows(d.rejected(wanted.name), lines), *d.late(wanted.name)]
    assert isinstance(wanted.body, PatternSpec)
    steps = [step.name for step in sequence_steps(wanted.body.sequence)]
    return [*_number_rows(lines, steps), *map(_refused_row, refused)]


def _pattern(spec: AppSpec, name: str) -> TableSpec:
    bare = name.removeprefix(f"{spec.name}.")
    patterns = {t.name: t for t in spec.tables if isinstance(t.body, PatternSpec)}
    if bare in patterns:
        return patterns[bare]
    hint = did_you_mean(bare, patterns, choice(patterns) if patterns else "a table made by .pattern(...)")
    raise BadOption(f"app {spec.name} has no pattern {bare!r}", where=spec.name, hint=hint)


def _stream(table: TableSpec, name: str | None) -> nodes.Source:
    found = {s.name: s for s in tree.sources(table.input)}
    if not found:
        read = ", ".join(dict.fromkeys(node.table for node in tree.reads(table.input)))
        problem = f"{table.name} reads the changes of {read}, and explain needs rows of a stream"
        advice = "declare the same steps on a stream with the columns of those changes, and explain that"
        raise BadOption(problem, where=f"{table.app}.{table.name}", hint=advice)
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name in found:
        return found[name]
    given = None if name is None else f"--stream {name}"
    hint = did_you_mean(name or "", found, f"--stream, one of: {', '.join(found)}")
    problem = (
        f"{table.name} reads several streams" if name is None else f"{table.name} reads no stream {name!r}"
    )
    raise BadOption(problem, where=f"{table.app}.{table.name}", given=given, hint=hint)


def _tables_needed(spec: AppSpec, table: TableSpec) -> set[str]:
    by_name = {t.name: t for t in spec.tables}
    found: set[str] = set()
    todo = [table]
    while todo:
        current = todo.pop()
        found.add(current.name)
        todo += [by_name[node.table] for node in tree.reads(current.input)]
    return found


def untraced_rows(
    rejected: Iterable[dict[str, Any]], lines: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rejected rows that the trace does not have: it has those whose conditions threw."""
    traced = Counter((line["rejected"], _text(line["row"])) for line in lines if line.get("rejected"))
    found = []
    for row in rejected:
        same = (row["reason"], _text(row["raw"]))
        if traced[same] > 0:
            traced[same] -= 1
        else:
            found.append(row)
    return found


def _text(row: Any) -> str:
    """A row, or its JSON text, in one normal form."""
    try:
        return json.dumps(json.loads(row) if isinstance(row, str) else row, sort_keys=True)
    except json.JSONDecodeError:
        return str(row)


def _number_rows(lines: Iterable[dict[str, Any]], steps: list[str]) -> list[dict[str, Any]]:
    """The lines with the rows of each key numbered from 1, in the order in which the pattern sees them."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_key.setdefault(json.dumps(line["key"], sort_keys=True), []).append(line)
    found = []
    for own in by_key.values():
        numbers = {line["mark"]: n for n, line in enumerate((x for x in own if "mark" in x), 1)}
        found += [_step(line, numbers, steps) for line in own]
    return found


def _step(line: dict[str, Any], numbers: dict[str, int], steps: list[str]) -> dict[str, Any]:
    def path(taken: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{"number": numbers[t["row"]], "step": t["step"]} for t in taken]

    found = {
        "key": line["key"],
        "number": numbers.get(line.get("mark", "")),
        "time": line.get("time"),
        "row": line.get("row"),
        "true": line.get("true", []),
        "took": [path(taken) for taken in line.get("took", [])],
        "ended": [{"match": path(e["match"]), "why": e["why"]} for e in line.get("ended", [])],
        "held": [{"match": path(h["match"]), "behind": path(h["behind"])} for h in line.get("held", [])],
        "matches": [{**m, "match": path(m["match"])} for m in line.get("matches", [])],
        "waiting": [{"match": path(w["match"]), "for": w.get("for", [])} for w in line.get("waiting", [])],
        "rejected": line.get("rejected"),
    }
    return {**found, "what": _what(found, steps)}


def _what(step: dict[str, Any], steps: list[str]) -> str:
    """What happened with a row, as text."""
    parts = [f"rejected: {step['rejected']}"] if step["rejected"] else []
    parts += [f"{taken[-1]['step']} takes it{_after(taken[:-1])}" for taken in step["took"]]
    if step["number"] is not None and not parts:
        held = ", ".join(name for name in step["true"] if name in steps)
        parts.append(f"no match waits for {held}" if held else "no step's condition is true")
    parts += [f"{_list(e['match'])} ends: {e['why']}" for e in step["ended"]]
    parts += [f"{_list(h['match'])} is complete, and waits for {_list(h['behind'])}" for h in step["held"]]
    parts += [f"{'OUT OF TIME' if m['timed_out'] else 'MATCH'} {_list(m['match'])}" for m in step["matches"]]
    return "; ".join(parts)


def _after(taken: list[dict[str, Any]]) -> str:
    return f" after {_list(taken)}" if taken else ""


def _list(taken: list[dict[str, Any]]) -> str:
    return ", ".join(f"{t['step']} {t['number']}" for t in taken)


def _refused_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row that did not reach the pattern."""
    kept = ("took", "ended", "held", "matches", "waiting", "true")
    what = f"{'late' if 'late_by' in row else 'rejected'}: {row['reason']}"
    blank = {"key": {}, "number": None, "time": None, "row": {"raw": row["raw"]}, "rejected": row["reason"]}
    return {**blank, **{name: [] for name in kept}, "what": what}
