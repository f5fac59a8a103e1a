"""Expressions, steps, windows, patterns and connectors as short text, for descriptions and errors."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from keyfold.masking import mask, mask_value
from keyfold.plan import durations
from keyfold.plan.column_expression import ColumnExpression
from keyfold.plan.initial import Initial, InitialRows
from keyfold.plan.kafka_topics import KafkaTopics
from keyfold.plan.nodes import (
    Changes,
    Connector,
    Distinct,
    Enrich,
    Expr,
    Join,
    Lookup,
    LookupJoin,
    Node,
    ProcessSpec,
    Select,
    Site,
    Source,
    TopSpec,
    Transform,
    Where,
    WindowSpec,
)
from keyfold.plan.pattern import syntax


def expr_words(value: Expr | Any) -> str:
    """SQL as it is, a column as Spark writes it; a function as `<function name at file:line>`, a class as
    `<class name>`."""
    if isinstance(value, str):
        return value
    if isinstance(value, ColumnExpression):
        return value.text
    while isinstance(value, functools.partial):
        value = value.func
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    if isinstance(value, type):
        return f"<class {name.rpartition('<locals>.')[2]}>"
    code = getattr(value, "__code__", None) or getattr(_call_of(value), "__code__", None)
    home = f" at {os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""
    return f"<function {name.rpartition('<locals>.')[2]}{home}>"


def named_words(named: Iterable[tuple[str | None, Expr]], between: str = "as") -> list[str]:
    """Each expression with its name, unless they are equal: "region", "date(at) as day"."""
    if between == "=":
        return [f"{name} = {expr_words(value)}" for name, value in named]
    return [_alias(name, expr_words(value)) for name, value in named]


def step_words(node: Node) -> str:
    """A step of a pipeline on one line."""
    if isinstance(node, Where):
        return f"where {expr_words(node.condition)}"
    if isinstance(node, Select):
        return f"select {', '.join(named_words(node.items))}"
    if isinstance(node, Transform):
        return f"transform {expr_words(node.fn)}"
    if isinstance(node, Join):
        return f"{node.how} join {_on_words(node)}, {near_words(node)}"
    if isinstance(node, Enrich):
        return f"enrich with {node.table} {_matching(node)}{_enrich_options(node)}"
    if isinstance(node, LookupJoin):
        return f"enrich with lookup {node.lookup.name} {_matching(node)}"
    if isinstance(node, Distinct):
        recorded = ", duplicates recorded" if node.record_duplicates else ""
        return f"distinct {', '.join(node.columns)} within {durations.text(node.within_ms)}{recorded}"
    if isinstance(node, Changes):
        return f"changes of {node.table}{', with the previous row' if node.previous else ''}"
    return node.name if isinstance(node, Source) else "union"


def top_words(top: TopSpec) -> str:
    """Which rows of a key are retained: "latest row", "top 10 by price desc"."""
    return "latest row" if top.order is None else f"top {top.n} by {top.order}"


def process_words(process: ProcessSpec) -> str:
    """A processor on one line."""
    initial = "" if process.initial is None else f", initial {expr_words(process.initial)}"
    return f"{expr_words(process.processor)}, mode {process.mode}{initial}"


_Spell: TypeAlias = Callable[[Expr], str]


def sequence_words(sequence: syntax.Sequence, spell: _Spell = expr_words) -> str:
    """The steps of a pattern on one line: "probe{3} >> no honest >> strike"."""
    if isinstance(sequence, syntax.Atom):
        return sequence.name
    if isinstance(sequence, syntax.No):
        return f"no {sequence.name}"
    if isinstance(sequence, syntax.Chain):
        rest = (
            f" {syntax.CONTIGUITY_SYNTAX[contiguity]} {_bracket(part, spell)}"
            for contiguity, part in sequence.rest
        )
        return _bracket(sequence.first, spell) + "".join(rest)
    if isinstance(sequence, syntax.Either):
        return " | ".join(_bracket(option, spell) for option in sequence.options)
    return f"{_bracket(sequence.body, spell)}{times_words(sequence, spell)}"


def times_words(repeat: syntax.Repeat, spell: _Spell = expr_words) -> str:
    """A repetition as in regular expressions: "{3}", "+", "{2,4} lazy"."""
    short = {(1, None): "+", (0, None): "*", (0, 1): "?"}.get((repeat.least, repeat.most))
    if short is None:
        most = "" if repeat.most is None else str(repeat.most)
        short = f"{{{repeat.least}}}" if most == str(repeat.least) else f"{{{repeat.least},{most}}}"
    near = {"relaxed": "", "strict": " strict", "any": " combinations"}[repeat.between]
    until = "" if repeat.until is None else f" until {spell(repeat.until)}"
    lazy = "" if repeat.greedy or repeat.least == repeat.most else " lazy"
    return f"{short}{lazy}{near}{until}"


def pattern_words(pattern: syntax.PatternSpec, spell: _Spell = expr_words) -> str:
    """A pattern and its options, on one line."""
    within = "" if pattern.within_ms is None else f", within {durations.text(pattern.within_ms)}"
    skip = pattern.skip if pattern.skip_to is None else f"{pattern.skip}({pattern.skip_to})"
    order = "" if pattern.order == "event" else f", order {pattern.order}"
    timeouts = ", timeouts" if pattern.timeouts else ""
    return f"{sequence_words(pattern.sequence, spell)}{within}, skip {skip}{order}{timeouts}"


def _bracket(sequence: syntax.Sequence, spell: _Spell) -> str:
    words = sequence_words(sequence, spell)
    return f"({words})" if isinstance(sequence, syntax.Chain | syntax.Either) else words


def lookup_words(lookup: Lookup) -> str:
    """A lookup's source and options, on one line."""
    refresh = "" if lookup.refresh_ms is None else f", refresh {durations.text(lookup.refresh_ms)}"
    duplicates = "" if lookup.duplicates == "error" else f", {lookup.duplicates} of duplicates"
    return f"{connector_words(lookup.connector)}{refresh}{duplicates}"


def window_words(window: WindowSpec) -> str:
    """Windows on one line: "sliding 1 hour every 1 minute, offset 30 seconds"."""
    if window.rows is not None:
        length = f"{window.rows} row{'' if window.rows == 1 else 's'}"
    else:
        length = expr_words(window.gap) if window.size_ms is None else durations.text(window.size_ms)
    every = f" every {durations.text(window.every_ms)}" if window.every_ms else ""
    offset = f", offset {durations.text(window.offset_ms)}" if window.offset_ms else ""
    zone = f", zone {window.zone}" if window.zone else ""
    return f"{window.kind} {length}{every}{offset}{zone}"


def connector_words(connector: Connector) -> str:
    """A source or sink on one line, secrets masked."""
    if connector.rows is not None:
        return f"rows ({len(connector.rows)})"
    kind = connector.kind if connector.kind == connector.format else f"{connector.kind} {connector.format}"
    own = () if connector.kafka is None else kafka_options(connector.kafka)
    options = ", ".join(f"{name}={value}" for name, value in (*own, *shown_options(connector)))
    path = mask(connector.path) if connector.path else ""
    if connector.kafka is not None:
        path = f"{connector.kafka.subject} at {mask(connector.kafka.servers)}"
    return " ".join(part for part in (kind, path, f"({options})" if options else "") if part)


def initial_words(initial: Initial) -> str:
    """A table's initial rows or state, on one line."""
    if isinstance(initial, InitialRows):
        until = "" if initial.until is None else f", until {initial.until.isoformat()}"
        return f"{connector_words(initial.connector)}{until}"
    of = {"app": initial.app, "table": initial.table, "home": initial.home and mask(initial.home)}
    more = ", ".join(f"{name} {value}" for name, value in of.items() if value is not None)
    return f"savepoint {initial.savepoint}" + (f" of {more}" if more else "")


def kafka_options(kafka: KafkaTopics) -> tuple[tuple[str, str], ...]:
    """The settings of a Kafka connector except servers and topics; defaults are left out."""
    found = {
        "start": kafka.start if kafka.start != "earliest" else None,
        "registry": kafka.registry and mask(kafka.registry),
        "key_format": kafka.key_format,
        "key_schema": kafka.key_schema,
        "descriptor": kafka.descriptor,
        "message": kafka.message,
        "metadata": "+".join(kafka.metadata) or None,
        "tombstones": kafka.tombstones if kafka.tombstones != "reject" else None,
        "on_data_loss": kafka.on_data_loss if kafka.on_data_loss != "fail" else None,
        "delivery": kafka.delivery if kafka.delivery != "exactly_once" else None,
    }
    return tuple((name, value) for name, value in found.items() if value is not None)


def shown_options(connector: Connector) -> tuple[tuple[str, str], ...]:
    """The options, with secrets masked: descriptions end up in logs and on screens."""
    return tuple((name, mask_value(name, value)) for name, value in connector.options)


def length_words(ms: int | None) -> str | None:
    """A length of time, if there is one."""
    return None if ms is None else durations.text(ms)


def site_words(site: Site | None) -> str | None:
    """A line of the declaration, if it is known."""
    return None if site is None else str(site)


def _alias(name: str | None, value: str) -> str:
    return value if name is None or name == value else f"{value} as {name}"


def _call_of(value: object) -> object:
    """The `__call__` of an object's class, if it has one."""
    return vars(type(value)).get("__call__")


def _on_words(node: Join) -> str:
    return f"on {', '.join(node.on) if node.condition is None else expr_words(node.condition)}"


def near_words(node: Join) -> str:
    """How far apart in event time two joined rows may be."""
    if node.before_ms == node.after_ms:
        return f"within {durations.text(node.before_ms)}"
    return f"within {durations.text(node.before_ms)} before and {durations.text(node.after_ms)} after"


def _matching(node: Enrich | LookupJoin) -> str:
    return f"on {', '.join(node.on)}{'' if node.how == 'left' else f', {node.how}'}"


def _enrich_options(node: Enrich) -> str:
    options = [
        f"wait {durations.text(node.wait_ms)}" if node.wait_ms is not None else "",
        "as of event time" if node.as_of == "event" else "",
        "on update" if node.on_update else "",
        f"keep {durations.text(node.keep_ms)}" if node.keep_ms is not None else "",
    ]
    return "".join(f", {option}" for option in options if option)
