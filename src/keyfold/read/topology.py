"""The graph of an app: its streams, lookups, tables and sinks, and which reads which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keyfold.engine.storage.stored_app import StoredApp

Kind = Literal["stream", "lookup", "table", "sink"]
How = Literal["rows", "changes", "enrich", "lookup", "write"]


@dataclass(frozen=True)
class TopologyNode:
    """A stream, a lookup, a table or a sink."""

    id: str
    """A name of its own among all nodes of the app."""
    kind: Kind
    name: str
    what: str
    """What it is in a few words, such as `kafka orders` or `tumbling 1 minute, by page`."""
    help: str


@dataclass(frozen=True)
class TopologyEdge:
    """That one node reads another: the direction in which rows go."""

    source: str
    """The id of the node that is read."""
    target: str
    """The id of the node that reads it; of a sink, that is written."""
    how: How


@dataclass(frozen=True)
class Topology:
    """The graph of an app, as its last start declared it."""

    app: str
    nodes: Sequence[TopologyNode]
    edges: Sequence[TopologyEdge]


def of(app: str, stored: StoredApp) -> Topology:
    """The graph that the last start of an app declared; tables that it no longer declares are not in it."""
    return Topology(app, list(_nodes(stored)), list(dict.fromkeys(_edges(stored))))


def _nodes(stored: StoredApp) -> Iterator[TopologyNode]:
    for kind in ("stream", "lookup"):
        for one in (stored.declared or {}).get(f"{kind}s") or ():
            yield _node(kind, one["name"], _connector(one.get("source")), one.get("help"))
    for name, table in stored.declared_tables.items():
        yield _node("table", name, _table(table), table.get("help"))
        for sink in table.get("sinks") or ():
            yield TopologyNode(_sink(name, sink), "sink", sink["name"], _connector(sink), "")


def _node(kind: Kind, name: str, what: str, help: str | None) -> TopologyNode:
    return TopologyNode(f"{kind} {name}", kind, name, what, help or "")


def _sink(table: str, sink: Mapping[str, Any]) -> str:
    return f"sink {table} {sink['name']}"


def _connector(source: Mapping[str, Any] | None) -> str:
    """A source or a sink in a few words; `declared` has no secrets."""
    if source is None:
        return ""
    topics = source.get("topics") or [one for one in (source.get("pattern"), source.get("path")) if one]
    return " ".join(str(word) for word in (source["kind"], *topics))


def _table(table: Mapping[str, Any]) -> str:
    keys = ", ".join(table.get("key") or ())
    by = f"by {keys}" if keys else ""
    return ", ".join(word for word in (_body(table), by) if word)


def _body(table: Mapping[str, Any]) -> str:
    if window := table.get("window"):
        size = window.get("size") or window.get("gap") or (window.get("rows") and f"{window['rows']} rows")
        return f"{window['kind']} {size or ''}".strip()
    if table.get("top"):
        return f"top {table['top']['n']}"
    return next((name for name in ("pattern", "process") if table.get(name)), "")


def _edges(stored: StoredApp) -> Iterator[TopologyEdge]:
    for name, table in stored.declared_tables.items():
        target = f"table {name}"
        found = list(_inputs(table.get("input") or ()))
        # Without a recorded input: the streams that the table has read.
        for source, how in found or [(f"stream {one}", "rows") for one in stored.table(name).streams]:
            yield TopologyEdge(source, target, how)
        for sink in table.get("sinks") or ():
            yield TopologyEdge(target, _sink(name, sink), "write")


def _inputs(pipeline: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, How]]:
    """What the steps of a table's input read."""
    for step in pipeline:
        ((name, value),) = step.items()
        match name:
            case "stream":
                yield f"stream {value}", "rows"
            case "union":
                for arm in value:
                    yield from _inputs(arm)
            case "join":
                yield from _inputs([*value["left"], *value["right"]])
            case "enrich":
                yield f"table {value['table']}", "enrich"
            case "lookup":
                yield f"lookup {value['name']}", "lookup"
            case "changes":
                yield f"table {value['table']}", "changes"
