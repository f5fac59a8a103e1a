"""Walks the nodes of a plan: what a node reads, which sources, tables and lookups, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from keyfold.plan.nodes import (
    AppSpec,
    Changes,
    Enrich,
    Join,
    Lookup,
    LookupJoin,
    Node,
    Source,
    TableSpec,
    Union,
)

LEAVES = (Source, Changes)
"""Nodes without inputs."""
MANY = (Union, Join)
"""Nodes with several inputs."""


def inputs(node: Node) -> tuple[Node, ...]:
    """The direct inputs of a node."""
    if isinstance(node, LEAVES):
        return ()
    if isinstance(node, Union):
        return node.inputs
    if isinstance(node, Join):
        return (node.left, node.right)
    return (node.input,)


def walk(node: Node) -> Iterator[Node]:
    """A node and all its inputs, in the order of the declaration; a node that is read twice comes twice."""
    # Without recursion: a long chain of selects must not hit Python's recursion limit.
    todo: list[Node] = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(reversed(inputs(current)))


def sources(node: Node) -> tuple[Source, ...]:
    """The sources a node reads, each once, in the order of the declaration."""
    return tuple({n.name: n for n in walk(node) if isinstance(n, Source)}.values())


def queried_sources(spec: AppSpec, table: TableSpec) -> tuple[Source, ...]:
    """The sources that a table's query reads.

    Its own, and those of tables that it is joined with as of event time: the same query folds their rows.
    """
    found = {source.name: source for source in sources(table.input)}
    for node in reads(table.input):
        if isinstance(node, Enrich) and node.as_of == "event":
            other = next(one for one in spec.tables if one.name == node.table)
            found = {**{source.name: source for source in queried_sources(spec, other)}, **found}
    return tuple(found.values())


def app_lookups(spec: AppSpec) -> tuple[Lookup, ...]:
    """The lookups that tables of an app read, each once, in the order of the declaration."""
    used = (n.lookup for table in spec.tables for n in walk(table.input) if isinstance(n, LookupJoin))
    return tuple({lookup.name.lower(): lookup for lookup in used}.values())


def reads(node: Node) -> tuple[Changes | Enrich, ...]:
    """The nodes that read another table, in the order of the declaration."""
    return tuple(n for n in walk(node) if isinstance(n, Changes | Enrich))


def steps(node: Node) -> list[Node]:
    """The nodes from the nearest leaf, union or join down to this one, in that order."""
    found = [node]
    while not isinstance(found[-1], LEAVES + MANY):
        found.append(inputs(found[-1])[0])
    return found[::-1]


def retracts(node: Node) -> bool:
    """Whether the stream is retracting: the changelog of a table, or enriched with `on_update`."""
    return any(
        (isinstance(n, Changes) and not n.previous) or (isinstance(n, Enrich) and n.on_update)
        for n in walk(node)
    )


def name_of(node: Node) -> str:
    """The name of a stream; a derived stream has the names of its sources."""
    names = (n.name if isinstance(n, Source) else n.table for n in walk(node) if isinstance(n, LEAVES))
    return "+".join(dict.fromkeys(names))


def with_source(node: Node, source: Source) -> Node:
    """The node on another source of the same name."""
    if isinstance(node, Source):
        return source if node.name == source.name else node
    if isinstance(node, Union):
        return replace(node, inputs=tuple(with_source(one, source) for one in node.inputs))
    inner = [one.name for one in fields(node) if one.name in ("input", "left", "right")]
    changed: dict[str, Any] = {name: with_source(getattr(node, name), source) for name in inner}
    return replace(node, **changed)
