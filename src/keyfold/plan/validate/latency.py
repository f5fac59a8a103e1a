"""Checks of `latency`: which features a table in Spark's real-time mode supports, and why not more."""

from __future__ import annotations

from typing import Any, Final, Literal, NoReturn, TypeAlias

from keyfold.errors import BadOption
from keyfold.plan.call_site import location
from keyfold.plan.nodes import (
    AppSpec,
    Changes,
    Connector,
    Distinct,
    Enrich,
    FoldSpec,
    Join,
    LookupJoin,
    Node,
    Select,
    Source,
    TableSpec,
    TopSpec,
    Transform,
    Union,
    Where,
)
from keyfold.plan.tree import walk
from keyfold.plan.validate import arguments
from keyfold.plan.validate.table_options import refuse_aggregate

Latency: TypeAlias = Literal["realtime"]
"""Requests that changes are sent as soon as their rows are read, not batch by batch."""

_STEPS: Final[dict[type, tuple[str, str]]] = {
    Join: ("a join of streams", "its operator holds rows until the batch ends"),
    Enrich: ("an enrichment", "the table's changes come in batches"),
    LookupJoin: ("a lookup", "its rows are loaded between batches, and a real-time batch is long"),
    Distinct: ("distinct", "a second stateful operator holds rows until the batch ends"),
    Union: ("a union", "its streams would have to share one batch, which is not built yet"),
    Transform: ("transform", "it reads the stream twice, which Spark refuses there"),
    Changes: ("a table of a table's changes", "the log that it reads has them when a batch is committed"),
}
_WINDOWS: Final = {
    "session": "sessions are not built for it yet",
    "rolling": "a rolling window folds its rows in the order of event time, batch by batch",
    "last": "a last-N window folds its rows in the order of event time, batch by batch",
}
# Options of Spark's source that limit a batch, or split it.
_LIMITS: Final = (
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "minpartitions",
    "maxrecordsperpartition",
)
_LEAVE_OUT: Final = 'leave latency="realtime" out'
_AT_ONCE: Final = 'kf.kafka("host:9092", topic="totals", delivery="at_least_once")'


def latency_option(value: object, where: object = None) -> Latency | None:
    """The option, if it is one."""
    refuse_aggregate(value, "latency", where)
    if value is None:
        return None
    arguments.one_of(value, ("realtime",), "latency", where)
    return "realtime"


def check_table(spec: TableSpec, where: object = None) -> None:
    """Refuses what can't run in real-time mode."""
    if spec.latency is None:
        return
    for node in walk(spec.input):
        _check_step(node, where)
    if spec.window is not None and spec.window.kind in _WINDOWS:
        _refuse(f"{spec.window.kind} windows", _WINDOWS[spec.window.kind], where)
    if isinstance(spec.body, TopSpec):
        _refuse("top and latest", "they rank rows in the order of event time, batch by batch", where)
    for name, column in spec.columns:
        if isinstance(column, FoldSpec):
            why = "a fold sees its rows in the order of event time, batch by batch"
            _refuse(f"the fold {name!r}", why, where, "use aggregates of Spark")
    files = "reads rows from files beside the topic, which Spark can't there"
    if spec.idle_ms is not None:
        _refuse("idle", f"it {files}", where, "leave idle out: a partition without rows holds the watermark")
    if spec.keep_ms is not None:
        _refuse("keep", f"a replay of late rows {files}", where)
    if spec.history_topic is not None:
        _refuse("a history topic", "its writer needs tasks of its own", where, 'history="30 days"')


def check_sink(sink: Connector, spec: TableSpec, where: object = None) -> None:
    """Refuses a sink that a real-time table can't write change by change."""
    if spec.latency is None:
        return
    if sink.kafka is None:
        _refuse(f"a sink of {sink.kind}", "its writer needs whole batches", where, f"{_AT_ONCE} is a sink")
    if sink.kafka.delivery != "at_least_once":
        why = "a transaction would show a change when its batch is committed, seconds later"
        _refuse("a sink with exactly_once delivery", why, where, f"{_AT_ONCE} is a sink")
    if sink.format != "json" or sink.kafka.key_format is not None:
        why = "tasks write JSON, with keys in the default format"
        _refuse("another format of a sink", why, where, "leave format and key_format of the sink out")


def check_app(spec: AppSpec) -> None:
    """Refuses an app whose tables would interfere with each other, and real-time tables without a sink."""
    fast = [table for table in spec.tables if table.latency is not None]
    if not fast:
        return
    for table in fast:
        if not table.sinks:
            raise BadOption(
                "a table with latency='realtime' needs a sink: the view has a change when its batch is "
                "committed, seconds later",
                where=location(f"{spec.name}.{table.name}", table.site),
                hint=f"{table.name}.to({_AT_ONCE})",
            )
    others = [table for table in spec.tables if table.latency is None]
    if others:
        raise BadOption(
            "tables with latency='realtime' need an app of their own: other tables take the task slots that "
            "they hold, and Spark ends a real-time query whose slots are taken",
            where=location(f"{spec.name}.{others[0].name}", others[0].site),
            given=", ".join(table.name for table in others),
            hint=f"declare {fast[0].name} in another app, or give all tables latency='realtime'",
        )


def _check_step(node: Node, where: object) -> None:
    if isinstance(node, Where | Select):
        return
    if not isinstance(node, Source):
        _refuse(*_STEPS.get(type(node), (type(node).__name__, "it is not built for it yet")), where)
    if node.connector.kafka is None:
        why = f"stream {node.name} is of kf.{node.connector.kind}, which Spark reads in batches"
        _refuse("another source than kf.kafka", why, where)
    if node.shared or node.history_ms is not None:
        why = f"it is read batch by batch, and stream {node.name} has one"
        _refuse("a stream's own log", why, where, "leave shared and history of the stream out")
    for name, _ in node.connector.options:
        if name.lower() in _LIMITS:
            _refuse(
                f"option {name} of stream {node.name}", "it bounds batches, which have no end there", where
            )


def _refuse(what: str, why: str, where: object, hint: str | None = None) -> NoReturn:
    advice: Any = f"{_LEAVE_OUT}, or {hint}" if hint else _LEAVE_OUT
    raise BadOption(
        f"{what} can't be in a table with latency='realtime': {why}", where=where, given=what, hint=advice
    )
