"""What an app declares, as frozen data: the only thing the engine sees of a declaration.

A row node (`Source`, `Where`, `Select`, `Transform`, `Union`) says where rows come from, a `TableSpec` how
they are folded per key, an `AppSpec` holds them all. Sites don't count in comparisons: moving a line in
the user's file changes no plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Expr: TypeAlias = str | Callable[[], Any]
"""A Spark SQL expression, or a function without arguments that returns a Spark `Column`."""

Named: TypeAlias = tuple[tuple[str, Expr], ...]
"""Expressions by name, in the order of the declaration."""

ConnectorKind: TypeAlias = Literal["files", "rate", "rows", "spark"]
OnError: TypeAlias = Literal["reject", "fail"]
WindowKind: TypeAlias = Literal["tumbling", "sliding", "session", "rolling", "last"]
Emit: TypeAlias = Literal["changes", "final"]


@dataclass(frozen=True)
class Site:
    """The line of the user's file that made a declaration."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


@dataclass(frozen=True)
class Connector:
    """Where rows come from or go to: a Spark format, its path and its options."""

    kind: ConnectorKind
    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    rows: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class FoldSpec:
    """A fold of the user's own: fields of the state, how a row changes them, what is read from them."""

    zero: Named
    update: Named
    result: Expr | None
    merge: Named | None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Source:
    """A stream with a name: rows from a connector, with a schema, an event time and a lateness allowance.

    `future_ms` is how far ahead of the clock a row's event time may be; None is no bound.
    """

    name: str
    connector: Connector
    schema: str | None
    time: str | None
    late_ms: int
    help: str = ""
    future_ms: int | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Where:
    """The rows of the input for which the condition is true."""

    input: Node
    condition: Expr
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Select:
    """Chosen and computed columns. A name of None: the item as spelled ("*", "a", "a as b")."""

    input: Node
    items: tuple[tuple[str | None, Expr], ...]
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Transform:
    """A function of the user's from DataFrame to DataFrame, called when the plan is compiled."""

    input: Node
    fn: Callable[..., Any]
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Union:
    """The rows of several streams, by column name."""

    inputs: tuple[Node, ...]
    site: Site | None = field(default=None, compare=False)


Node: TypeAlias = Source | Where | Select | Transform | Union


@dataclass(frozen=True)
class WindowSpec:
    """Which rows of a key are folded together; a table without one folds them all."""

    kind: WindowKind
    size_ms: int | None = None
    """tumbling, sliding, rolling: the length; session: the gap, if it is constant."""
    every_ms: int | None = None
    """sliding: the step; rolling: the width of panes, if asked for."""
    offset_ms: int = 0
    """tumbling, sliding: how far after the epoch, or after local midnight, windows begin."""
    zone: str | None = None
    """tumbling, sliding: a named time zone; sizes are then whole days."""
    rows: int | None = None
    """last: how many."""
    gap: Expr | None = None
    """session: an expression instead of `size_ms`."""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableSpec:
    """Keyed state: one row per key, or per key and window, folded from the input."""

    app: str
    name: str
    input: Node
    keys: Named
    columns: tuple[tuple[str, Expr | FoldSpec], ...]
    ttl_ms: int | None = None
    partitions: int | None = None
    on_error: OnError = "reject"
    sinks: tuple[Connector, ...] = ()
    help: str = ""
    window: WindowSpec | None = None
    emit: Emit = "changes"
    keep_ms: int | None = None
    idle_ms: int | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class AppSpec:
    """A whole app: what `keyfold run` runs and `describe` shows."""

    name: str
    every_ms: int | None = None
    snapshot_every: int | None = None
    help: str = ""
    streams: tuple[Source, ...] = ()
    tables: tuple[TableSpec, ...] = ()


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes a node reads directly."""
    if isinstance(node, Source):
        return ()
    if isinstance(node, Union):
        return node.inputs
    return (node.input,)


def sources(node: Node) -> tuple[Source, ...]:
    """The sources a node reads, each once, in the order of the declaration."""
    return tuple({source.name: source for source in _walk(node)}.values())


def steps(node: Node) -> list[Node]:
    """The nodes from the nearest source or union down to this one."""
    found = [node]
    while not isinstance(found[-1], Source | Union):
        found.append(found[-1].input)
    return found[::-1]


def name_of(node: Node) -> str:
    """What to call a stream: derived ones go by the names of their sources."""
    return "+".join(source.name for source in sources(node))


def _walk(node: Node) -> Iterator[Source]:
    # By hand, not by recursion: a long chain of selects must not hit Python's recursion limit.
    todo: list[Node] = [node]
    while todo:
        current = todo.pop()
        if isinstance(current, Source):
            yield current
        todo.extend(reversed(inputs(current)))
