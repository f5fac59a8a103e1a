"""An app as plain JSON data."""

from __future__ import annotations

from typing import Any

from keyfold.errors import masked
from keyfold.plan import durations
from keyfold.plan.nodes import (
    AppSpec,
    Connector,
    Expr,
    FoldSpec,
    Named,
    Node,
    Select,
    Site,
    Source,
    TableSpec,
    Transform,
    Union,
    Where,
    WindowSpec,
    steps,
)
from keyfold.plan.words import expr_words, shown_options, step_words


def to_dict(spec: AppSpec) -> dict[str, Any]:
    """The app as plain JSON data. Secrets in options are masked, functions shown by name and place."""
    return {
        "app": spec.name,
        "help": spec.help,
        "every": _length(spec.every_ms),
        "snapshot_every": spec.snapshot_every,
        "streams": [_stream_dict(stream) for stream in spec.streams],
        "tables": [_table_dict(table) for table in spec.tables],
    }


def _stream_dict(stream: Source) -> dict[str, Any]:
    return {
        "name": stream.name,
        "help": stream.help,
        "source": _connector_dict(stream.connector),
        "schema": stream.schema,
        "time": stream.time,
        "late": durations.text(stream.late_ms),
        "future": _length(stream.future_ms),
        "at": _text(stream.site),
    }


def _table_dict(table: TableSpec) -> dict[str, Any]:
    return {
        "name": table.name,
        "help": table.help,
        "input": _pipeline(table.input),
        "key": _named_dict(table.keys),
        "window": None if table.window is None else _window_dict(table.window),
        "columns": {name: _column_value(value) for name, value in table.columns},
        "ttl": _length(table.ttl_ms),
        "emit": table.emit,
        "keep": _length(table.keep_ms),
        "idle": _length(table.idle_ms),
        "partitions": table.partitions,
        "on_error": table.on_error,
        "sinks": [_connector_dict(sink) for sink in table.sinks],
        "at": _text(table.site),
    }


def _window_dict(window: WindowSpec) -> dict[str, Any]:
    return {
        "kind": window.kind,
        "size": _length(window.size_ms),
        "every": _length(window.every_ms),
        "offset": durations.text(window.offset_ms),
        "zone": window.zone,
        "rows": window.rows,
        "gap": None if window.gap is None else expr_words(window.gap),
        "at": _text(window.site),
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
    return {type(node).__name__.lower(): step_words(node)}


def _connector_dict(connector: Connector) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": connector.kind, "format": connector.format}
    if connector.path is not None:
        found["path"] = masked(connector.path)
    if connector.options:
        found["options"] = dict(shown_options(connector))
    if connector.rows is not None:
        found["rows"] = list(connector.rows)
    return found


def _named_dict(named: Named) -> dict[str, str]:
    return {name: expr_words(value) for name, value in named}


def _column_value(value: Expr | FoldSpec) -> Any:
    if not isinstance(value, FoldSpec):
        return expr_words(value)
    fold: dict[str, Any] = {"zero": _named_dict(value.zero), "update": _named_dict(value.update)}
    if value.merge is not None:
        fold["merge"] = _named_dict(value.merge)
    return {"fold": {**fold, "result": None if value.result is None else expr_words(value.result)}}


def _text(site: Site | None) -> str | None:
    return None if site is None else str(site)


def _length(ms: int | None) -> str | None:
    return None if ms is None else durations.text(ms)
