"""An app as JSON data, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from keyfold.masking import mask
from keyfold.plan import durations
from keyfold.plan.describe.pattern_graph import pattern_graph
from keyfold.plan.describe.phrases import expr_words, length_words, sequence_words, shown_options, site_words
from keyfold.plan.initial import Initial, InitialState
from keyfold.plan.kafka_topics import KafkaTopics
from keyfold.plan.nodes import (
    AppSpec,
    Connector,
    Distinct,
    Enrich,
    Expr,
    FoldSpec,
    Join,
    Lookup,
    LookupJoin,
    Named,
    Node,
    ProcessSpec,
    Select,
    Source,
    TableSpec,
    TopSpec,
    Transform,
    Union,
    Where,
    WindowSpec,
)
from keyfold.plan.pattern.automaton import automaton
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.tree import app_lookups, steps


def to_dict(spec: AppSpec) -> dict[str, Any]:
    """The app as plain JSON data. Secrets in options are masked, functions are shown by name and location."""
    return {
        "app": spec.name,
        "help": spec.help,
        "every": length_words(spec.every_ms),
        "snapshot_every": spec.snapshot_every,
        "streams": [_stream_dict(stream) for stream in spec.streams],
        "lookups": [_lookup_dict(lookup) for lookup in app_lookups(spec)],
        "tables": [_table_dict(table) for table in spec.tables],
    }


def _stream_dict(stream: Source) -> dict[str, Any]:
    return {
        "name": stream.name,
        "help": stream.help,
        "source": connector_dict(stream.connector),
        "schema": stream.schema,
        "time": stream.time,
        "late": durations.text(stream.late_ms),
        "future": length_words(stream.future_ms),
        "history": length_words(stream.history_ms),
        "shared": stream.shared,
        "at": site_words(stream.site),
    }


def _lookup_dict(lookup: Lookup) -> dict[str, Any]:
    return {
        "name": lookup.name,
        "help": lookup.help,
        "source": connector_dict(lookup.connector),
        "schema": lookup.schema,
        "refresh": length_words(lookup.refresh_ms),
        "duplicates": lookup.duplicates,
        "at": site_words(lookup.site),
    }


def _table_dict(table: TableSpec) -> dict[str, Any]:
    body = table.body
    return {
        "name": table.name,
        "help": table.help,
        "input": _pipeline(table.input),
        "key": _named_dict(table.keys),
        "window": None if table.window is None else _window_dict(table.window),
        "top": {"n": body.n, "by": body.order} if isinstance(body, TopSpec) else None,
        "process": _process_dict(body) if isinstance(body, ProcessSpec) else None,
        "pattern": _pattern_dict(body) if isinstance(body, PatternSpec) else None,
        "columns": {name: _column_value(value) for name, value in table.columns},
        "ttl": length_words(table.ttl_ms),
        "emit": table.emit,
        "keep": length_words(table.keep_ms),
        "idle": length_words(table.idle_ms),
        "was": table.was,
        "initial": None if table.initial is None else _initial_dict(table.initial),
        "latency": table.latency,
        "history": length_words(table.history_ms)
        if table.history_topic is None
        else connector_dict(table.history_topic),
        "partitions": table.partitions,
        "on_error": table.on_error,
        "private": list(table.private),
        "sinks": [{"name": name, **connector_dict(sink)} for name, sink in table.sinks],
        "at": site_words(table.site),
    }


def _initial_dict(initial: Initial) -> dict[str, Any]:
    if isinstance(initial, InitialState):
        home = None if initial.home is None else mask(initial.home)
        of = {"app": initial.app, "table": initial.table, "home": home}
        return {"savepoint": initial.savepoint, **of}
    until = None if initial.until is None else initial.until.isoformat()
    return {"source": connector_dict(initial.connector), "until": until}


def _window_dict(window: WindowSpec) -> dict[str, Any]:
    return {
        "kind": window.kind,
        "size": length_words(window.size_ms),
        "every": length_words(window.every_ms),
        "offset": durations.text(window.offset_ms),
        "zone": window.zone,
        "rows": window.rows,
        "gap": None if window.gap is None else expr_words(window.gap),
        "at": site_words(window.site),
    }


def _process_dict(process: ProcessSpec) -> dict[str, Any]:
    return {
        "processor": expr_words(process.processor),
        "output": process.output,
        "mode": process.mode,
        "initial": None if process.initial is None else expr_words(process.initial),
    }


def _pattern_dict(pattern: PatternSpec) -> dict[str, Any]:
    found = automaton(pattern).conditions
    return {
        "steps": sequence_words(pattern.sequence),
        "graph": asdict(pattern_graph(pattern)),
        "conditions": {c.name: None if c.expression is None else expr_words(c.expression) for c in found},
        "within": length_words(pattern.within_ms),
        "skip": pattern.skip if pattern.skip_to is None else f"{pattern.skip}({pattern.skip_to})",
        "order": pattern.order,
        "returns": _named_dict(pattern.returns),
        "timeouts": pattern.timeouts,
        "limit": pattern.limit,
    }


def _pipeline(node: Node) -> list[dict[str, Any]]:
    return [_step(step) for step in steps(node)]


def _step(node: Node) -> dict[str, Any]:
    if isinstance(node, Source):
        return {"stream": node.name}
    if isinstance(node, Union):
        return {"union": [_pipeline(arm) for arm in node.inputs]}
    if isinstance(node, Where):
        return {"where": expr_words(node.condition)}
    if isinstance(node, Select):
        return {"select": [{"name": name, "expression": expr_words(item)} for name, item in node.items]}
    if isinstance(node, Transform):
        return {"transform": expr_words(node.fn)}
    if isinstance(node, Join):
        return {"join": _join_dict(node)}
    if isinstance(node, Enrich):
        return {"enrich": _enrich_dict(node)}
    if isinstance(node, LookupJoin):
        return {"lookup": {"name": node.lookup.name, "on": list(node.on), "how": node.how}}
    if isinstance(node, Distinct):
        found = {"columns": list(node.columns), "within": durations.text(node.within_ms)}
        return {"distinct": {**found, "record_duplicates": node.record_duplicates}}
    return {"changes": {"table": node.table, "previous": node.previous}}


def _join_dict(node: Join) -> dict[str, Any]:
    return {
        "left": _pipeline(node.left),
        "right": _pipeline(node.right),
        "on": list(node.on) if node.condition is None else expr_words(node.condition),
        "before": durations.text(node.before_ms),
        "after": durations.text(node.after_ms),
        "how": node.how,
    }


def _enrich_dict(node: Enrich) -> dict[str, Any]:
    return {
        "table": node.table,
        "on": list(node.on),
        "how": node.how,
        "wait": length_words(node.wait_ms),
        "as_of": node.as_of,
        "on_update": node.on_update,
        "keep": length_words(node.keep_ms),
    }


def connector_dict(connector: Connector) -> dict[str, Any]:
    """A source or a sink, secrets masked."""
    found: dict[str, Any] = {"kind": connector.kind, "format": connector.format}
    if connector.path is not None:
        found["path"] = mask(connector.path)
    if connector.kafka is not None:
        found |= _kafka_dict(connector.kafka)
    if connector.options:
        found["options"] = dict(shown_options(connector))
    if connector.rows is not None:
        found["rows"] = list(connector.rows)
    return found


def _kafka_dict(kafka: KafkaTopics) -> dict[str, Any]:
    subject = {"pattern": kafka.pattern} if kafka.pattern is not None else {"topics": list(kafka.topics)}
    return {
        "servers": mask(kafka.servers),
        **subject,
        "start": kafka.start,
        "registry": None if kafka.registry is None else mask(kafka.registry),
        "key_format": kafka.key_format,
        "key_schema": kafka.key_schema,
        "descriptor": kafka.descriptor,
        "message": kafka.message,
        "metadata": list(kafka.metadata),
        "tombstones": kafka.tombstones,
        "on_data_loss": kafka.on_data_loss,
        "delivery": kafka.delivery,
        "wait": length_words(kafka.wait_ms),
    }


def _named_dict(named: Named) -> dict[str, str]:
    return {name: expr_words(value) for name, value in named}


def _column_value(value: Expr | FoldSpec) -> Any:
    if not isinstance(value, FoldSpec):
        return expr_words(value)
    fold: dict[str, Any] = {"zero": _named_dict(value.zero), "update": _named_dict(value.update)}
    if value.merge is not None:
        fold["merge"] = _named_dict(value.merge)
    if value.retract is not None:
        fold["retract"] = _named_dict(value.retract)
    if value.migrate is not None:
        fold["migrate"] = _named_dict(value.migrate)
    return {"fold": {**fold, "result": None if value.result is None else expr_words(value.result)}}
