"""What an app declares, as frozen data: the only thing the engine sees of a declaration.

A row node (`Source`, `Where`, `Select`, `Transform`, `Union`, `Join`, `Enrich`, `Distinct`, `Changes`) says
where rows come from, a `TableSpec` how they are folded per key, an `AppSpec` holds them all. Tables are
named, not held: a node can only name one that was declared before it. Sites don't count in comparisons:
moving a line in the user's file changes no plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from keyfold.masking import masked, shown

if TYPE_CHECKING:
    from keyfold.plan.pattern.syntax import PatternSpec

Expr: TypeAlias = str | Callable[[], Any]
"""A Spark SQL expression, or a function without arguments that returns a Spark `Column`."""


class GivenColumn:
    """A Spark `Column` made by the user, who had a session; a function like any other to the engine."""

    def __init__(self, column: Any) -> None:
        self._column = column
        self.text = str(column._jc.toString())

    def __call__(self) -> Any:
        return self._column

    def __repr__(self) -> str:
        return f"GivenColumn({self.text})"


Named: TypeAlias = tuple[tuple[str, Expr], ...]
"""Expressions by name, in the order of the declaration."""

ConnectorKind: TypeAlias = Literal["files", "rate", "rows", "spark"]
OnError: TypeAlias = Literal["reject", "fail"]
WindowKind: TypeAlias = Literal["tumbling", "sliding", "session", "rolling", "last"]
Emit: TypeAlias = Literal["changes", "final"]
JoinHow: TypeAlias = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]
AsOf: TypeAlias = Literal["arrival", "event"]
Duplicates: TypeAlias = Literal["error", "first", "last"]
ProcessMode: TypeAlias = Literal["update", "append"]


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

    def __repr__(self) -> str:
        """Without secrets: what is printed ends up in logs and notebooks."""
        path = None if self.path is None else masked(self.path)
        options = tuple((name, shown(name, value)) for name, value in self.options)
        given = f"kind={self.kind!r}, format={self.format!r}, path={path!r}, options={options!r}"
        return f"Connector({given}, rows={self.rows!r})"


@dataclass(frozen=True)
class FoldSpec:
    """A fold of the user's own: fields of the state, how a row changes them, what is read from them."""

    zero: Named
    update: Named
    result: Expr | None
    merge: Named | None
    retract: Named | None = None
    """The state without a row that was folded before; what changes of a table need."""
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


@dataclass(frozen=True)
class Join:
    """Rows of two streams that match and are near in time.

    `on`: columns that both have; or none, and a `condition` in which columns are named `<stream>.<column>`. A
    row of the right is near if it is at most `before_ms` older and `after_ms` newer than that of the left.
    """

    left: Node
    right: Node
    on: tuple[str, ...]
    condition: Expr | None
    before_ms: int
    after_ms: int
    how: JoinHow = "inner"
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Enrich:
    """Rows with the row that a table has for their key.

    `on`: columns of the input, matched in order to the table's key. `wait_ms` is how long a row may wait for
    the table; with `on_update` rows are kept, for `keep_ms` or for good, and follow changes of the table.
    """

    input: Node
    table: str
    on: tuple[str, ...]
    how: JoinHow = "left"
    wait_ms: int | None = None
    as_of: AsOf = "arrival"
    on_update: bool = False
    keep_ms: int | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Lookup:
    """A static side: rows that are read as a whole, and again every `refresh_ms`; None is never again."""

    name: str
    connector: Connector
    schema: str
    refresh_ms: int | None = None
    duplicates: Duplicates = "error"
    help: str = ""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LookupJoin:
    """Rows with the row that a lookup has for their key: `on` are columns that both have."""

    input: Node
    lookup: Lookup
    on: tuple[str, ...]
    how: JoinHow = "left"
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Distinct:
    """Rows of which none with equal columns was kept less than `within_ms` before or after."""

    input: Node
    columns: tuple[str, ...]
    within_ms: int
    removed: bool = False
    """Whether the rows that were removed are kept aside, and not only counted."""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Changes:
    """What a table becomes: its rows as they are now, so that a fold of them takes back what has changed.

    With `previous` its changes as they happen, each once, with `_op` and the row as it was before.
    """

    table: str
    previous: bool = False
    site: Site | None = field(default=None, compare=False)


Node: TypeAlias = (
    Source | Where | Select | Transform | Union | Join | Enrich | LookupJoin | Distinct | Changes
)
LEAVES = (Source, Changes)
"""Nodes that begin a stream."""
MANY = (Union, Join)
"""Nodes that read more than one stream."""


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
class TopSpec:
    """Whole rows per key: the first `n` by `order`, SQL as after ORDER BY; None is the newest row."""

    n: int = 1
    order: str | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ProcessSpec:
    """Logic of the user's own: a PySpark `StatefulProcessor`, its output in DDL, and rows to begin with."""

    processor: Callable[[], Any]
    output: str
    mode: ProcessMode = "update"
    initial: Callable[..., Any] | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableSpec:
    """Keyed state: one row per key, or per key and window, folded from the input.

    With `top` the columns are expressions on a row, all of the stream's columns if there are none; with
    `process` or `pattern` there are none.
    """

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
    top: TopSpec | None = None
    process: ProcessSpec | None = None
    pattern: PatternSpec | None = None
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
    if isinstance(node, LEAVES):
        return ()
    if isinstance(node, Union):
        return node.inputs
    if isinstance(node, Join):
        return (node.left, node.right)
    return (node.input,)


def walk(node: Node) -> Iterator[Node]:
    """A node and all that it reads, in the order of the declaration; what is read twice comes twice."""
    # By hand, not by recursion: a long chain of selects must not hit Python's recursion limit.
    todo: list[Node] = [node]
    while todo:
        current = todo.pop()
        yield current
        todo.extend(reversed(inputs(current)))


def sources(node: Node) -> tuple[Source, ...]:
    """The sources a node reads, each once, in the order of the declaration."""
    return tuple({n.name: n for n in walk(node) if isinstance(n, Source)}.values())


def app_lookups(spec: AppSpec) -> tuple[Lookup, ...]:
    """The lookups that tables of an app read, each once, in the order of the declaration."""
    used = (n.lookup for table in spec.tables for n in walk(table.input) if isinstance(n, LookupJoin))
    return tuple({lookup.name.lower(): lookup for lookup in used}.values())


def reads(node: Node) -> tuple[Changes | Enrich, ...]:
    """The nodes that read another table, in the order of the declaration."""
    return tuple(n for n in walk(node) if isinstance(n, Changes | Enrich))


def steps(node: Node) -> list[Node]:
    """The nodes from the nearest leaf, union or join down to this one."""
    found = [node]
    while not isinstance(found[-1], LEAVES + MANY):
        found.append(inputs(found[-1])[0])
    return found[::-1]


def retracts(node: Node) -> bool:
    """Whether rows of the stream may be taken back: those of a table's changes, or that follow a table's."""
    return any(
        (isinstance(n, Changes) and not n.previous) or (isinstance(n, Enrich) and n.on_update)
        for n in walk(node)
    )


def name_of(node: Node) -> str:
    """What to call a stream: derived ones go by the names of what they begin with."""
    names = (n.name if isinstance(n, Source) else n.table for n in walk(node) if isinstance(n, LEAVES))
    return "+".join(dict.fromkeys(names))
