"""The nodes of a plan: what an app declares, as frozen data, and all that the engine sees of it.

A stream is a tree of nodes (`Source`, `Where`, `Select`, `Transform`, `Union`, `Join`, `Enrich`,
`LookupJoin`, `Distinct`, `Changes`); a `TableSpec` says how its rows are folded per key; an `AppSpec` is the
whole app. Nodes refer to tables by name, and only to tables declared before them. Sites don't count in
comparisons: moving a line in the user's file doesn't change the plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from keyfold.masking import mask, mask_value
from keyfold.plan.kafka_topics import KafkaTopics

if TYPE_CHECKING:
    from keyfold.plan.initial import Initial
    from keyfold.plan.pattern.syntax import PatternSpec

Expr: TypeAlias = str | Callable[[], Any]
"""A Spark SQL expression, or a function without arguments that returns a Spark `Column`."""

Named: TypeAlias = tuple[tuple[str, Expr], ...]
"""Expressions by name, in the order of the declaration."""

ConnectorKind: TypeAlias = Literal["files", "rate", "rows", "spark", "kafka"]
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
    """A source or a sink: a Spark format, its path and its options; `kafka` for topics of Kafka."""

    kind: ConnectorKind
    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    rows: tuple[Any, ...] | None = None
    kafka: KafkaTopics | None = None

    def __repr__(self) -> str:
        """Without secrets: a repr ends up in logs and notebooks."""
        path = None if self.path is None else mask(self.path)
        options = tuple((name, mask_value(name, value)) for name, value in self.options)
        fields = f"kind={self.kind!r}, format={self.format!r}, path={path!r}, options={options!r}"
        kafka = "" if self.kafka is None else f", kafka={mask(repr(self.kafka))}"
        return f"Connector({fields}, rows={self.rows!r}{kafka})"


@dataclass(frozen=True)
class FoldSpec:
    """A user-defined fold: the fields of the state, how a row updates them, and the result."""

    zero: Named
    update: Named
    result: Expr | None
    merge: Named | None
    retract: Named | None = None
    """The state without a row that was folded before; needed on a retracting stream."""
    migrate: Named | None = None
    """Fields of the state, computed from the `state` of an earlier definition of the fold."""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Source:
    """A declared stream: rows of a connector, with a schema, event time and allowed lateness.

    `future_ms` is how far ahead of the clock a row's event time may be; None is no bound. `history_ms` is how
    long recorded rows stay readable. `shared`: whether the stream has a log of its own, which its tables
    read; None keeps what earlier starts recorded, and at first is as `sharing.is_shared` says. `until`: of a
    table's initial files, the boundary from which on their rows are left out.
    """

    name: str
    connector: Connector
    schema: str | None
    time: str | None
    late_ms: int
    help: str = ""
    future_ms: int | None = None
    history_ms: int | None = None
    shared: bool | None = None
    until: datetime | None = None
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Where:
    """The rows of the input for which the condition is true."""

    input: Node
    condition: Expr
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Select:
    """Selected and computed columns. An item without a name stays as written ("*", "a", "a as b")."""

    input: Node
    items: tuple[tuple[str | None, Expr], ...]
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Transform:
    """A user's function from DataFrame to DataFrame, called when the plan is compiled."""

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
    """A join of two streams by columns or a condition, and by event time.

    `on`: columns that both have; or none, and a `condition` in which columns are named `<stream>.<column>`. A
    row of the right may be at most `before_ms` older and `after_ms` newer than the row of the left.
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
    """Each row with the table's row of its key.

    `on`: columns of the input, in the order of the table's key. `wait_ms` is how long a row without a match
    is buffered; with `on_update` rows are kept, for `keep_ms` or forever, and updated when the table changes.
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
    """A static table, read as a whole and reloaded every `refresh_ms`; None is never."""

    name: str
    connector: Connector
    schema: str
    refresh_ms: int | None = None
    duplicates: Duplicates = "error"
    help: str = ""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LookupJoin:
    """Each row with the lookup's row of its key; `on` are columns that both have."""

    input: Node
    lookup: Lookup
    on: tuple[str, ...]
    how: JoinHow = "left"
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Distinct:
    """Drops duplicates by `columns` within ±`within_ms` of a kept row."""

    input: Node
    columns: tuple[str, ...]
    within_ms: int
    record_duplicates: bool = False
    """Whether duplicates are recorded as a side output, and not only counted."""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Changes:
    """A table's changelog as a retracting stream: a new version of a row retracts the old one.

    With `previous`, the changes as events that never retract, each with `_op` and the row before the change.
    """

    table: str
    previous: bool = False
    site: Site | None = field(default=None, compare=False)


Node: TypeAlias = (
    Source | Where | Select | Transform | Union | Join | Enrich | LookupJoin | Distinct | Changes
)


@dataclass(frozen=True)
class WindowSpec:
    """Which rows of a key are folded together; without one, all of them."""

    kind: WindowKind
    size_ms: int | None = None
    """tumbling, sliding, rolling: the length; session: the gap, if it is constant."""
    every_ms: int | None = None
    """sliding: the distance of window starts; rolling: the width of panes, if set."""
    offset_ms: int = 0
    """tumbling, sliding: the shift of window starts from the epoch, or from local midnight."""
    zone: str | None = None
    """tumbling, sliding: a named time zone; sizes are then whole days."""
    rows: int | None = None
    """last: the number of rows."""
    gap: Expr | None = None
    """session: an expression instead of `size_ms`."""
    site: Site | None = field(default=None, compare=False)


Columns: TypeAlias = tuple[tuple[str, Expr | FoldSpec], ...]
"""Aggregates, folds or expressions by the names of columns, in the order of the declaration."""


@dataclass(frozen=True)
class AggregateSpec:
    """Aggregates and folds of the rows of a key, or of each of its windows."""

    columns: Columns
    window: WindowSpec | None = None
    emit: Emit = "changes"
    keep_ms: int | None = None
    """How long a closed window accepts replays of late rows."""


@dataclass(frozen=True)
class TopSpec:
    """Whole rows per key: the first `n` by `order`, as after ORDER BY in SQL; None is the latest row."""

    n: int = 1
    order: str | None = None
    columns: Named = ()
    """Expressions on a row; without any, all columns of the stream."""
    site: Site | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ProcessSpec:
    """A user's PySpark `StatefulProcessor`, its output schema in DDL, and its initial state."""

    processor: Callable[[], Any]
    output: str
    mode: ProcessMode = "update"
    initial: Callable[..., Any] | None = None
    site: Site | None = field(default=None, compare=False)


Body: TypeAlias = "AggregateSpec | TopSpec | PatternSpec | ProcessSpec"
"""What a table keeps of the rows of a key."""


@dataclass(frozen=True)
class TableSpec:
    """Keyed state: a key, what is kept of its rows, and the options that tables of every kind have."""

    app: str
    name: str
    input: Node
    keys: Named
    body: Body
    ttl_ms: int | None = None
    partitions: int | None = None
    on_error: OnError = "reject"
    sinks: tuple[tuple[str, Connector], ...] = ()
    """Where its changes go, by the names under which positions are stored."""
    help: str = ""
    idle_ms: int | None = None
    history_ms: int | None = None
    history_topic: Connector | None = None
    """A compacted topic that keeps the table's changes."""
    was: str | None = None
    """The name that the table had before, under which its state may still be."""
    latency: Literal["realtime"] | None = None
    initial: Initial | None = None
    """What the table begins with, before its stream."""
    private: tuple[str, ...] = ()
    """The columns that readers with a token do not see."""
    site: Site | None = field(default=None, compare=False)

    @property
    def columns(self) -> Columns:
        """The columns that are declared one by one; those of processors and matches are not."""
        return self.body.columns if isinstance(self.body, AggregateSpec | TopSpec) else ()

    @property
    def window(self) -> WindowSpec | None:
        """The windows of its aggregates, if they have any."""
        return self.body.window if isinstance(self.body, AggregateSpec) else None

    @property
    def emit(self) -> Emit:
        """Whether windows are emitted with each change, or once; other tables emit each change."""
        return self.body.emit if isinstance(self.body, AggregateSpec) else "changes"

    @property
    def keep_ms(self) -> int | None:
        """How long closed windows are kept, if they are."""
        return self.body.keep_ms if isinstance(self.body, AggregateSpec) else None


@dataclass(frozen=True)
class AppSpec:
    """A whole app: what `keyfold run` runs and `describe` shows."""

    name: str
    every_ms: int | None = None
    snapshot_every: int | None = None
    help: str = ""
    streams: tuple[Source, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    read_outside: frozenset[str] = frozenset()
    """In a spec with only some tables of an app: those whose changelogs the app's other tables read."""
