"""One table's declaration as a Spark plan.

A row node is one function, found by its type in `STEPS`; the kernel's pipeline takes what the user wrote one
item at a time and analyzes it at once, so that an error is about that item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import inputs, joining, lookups, meeting, session, side
from keyfold.engine.failures import explained
from keyfold.engine.home import AppHome, TableHome
from keyfold.engine.meeting import Shape, Upstream
from keyfold.errors import BadExpression
from keyfold.plan import nodes, words
from keyfold.plan.closing import BOUNDS, closes
from keyfold.plan.nodes import AppSpec, Expr, FoldSpec, TableSpec, TopSpec, WindowSpec
from keyfold.plan.times import timeless
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNAR = ("parquet", "orc")
NEEDS_CLOCK = "KEYFOLD_NEEDS_CLOCK"
OWN = ("_op", "_kf_prev", "_kf_bad")
"""Columns of a table's changes that are keyfold's own."""
STAGES = (
    nodes.Source,
    nodes.Union,
    nodes.Transform,
    nodes.LookUp,
    nodes.Join,
    nodes.Enrich,
    nodes.Distinct,
    nodes.Changes,
)
"""Nodes that begin a stage of their own; others are part of the stage below them."""


@dataclass(frozen=True)
class Compiled:
    """A table ready to run: its changes as a streaming DataFrame, and what it means."""

    spec: TableSpec
    changes: DataFrame
    meaning: dict[str, str]
    state_schema: str
    view: ViewSchema
    event_time: bool
    rebuilt: Callable[[DataFrame, bool], DataFrame]
    """The table's rows, from its state as Spark's statestore source reads it, or from windows it keeps."""


def compile_app(
    spark: SparkSession,
    spec: AppSpec,
    feeds: Mapping[str, Path] | None = None,
    place: AppHome | None = None,
    sides: lookups.Lookups | None = None,
) -> list[Compiled]:
    """Every table of the app; starts nothing. Without a place nothing is read but the streams."""
    upstream = Upstream(spec, {})
    analyses = []
    for table in spec.tables:
        home = None if place is None else place.table(table.name)
        analyses.append(analyze(spark, table, feeds or {}, home, sides, upstream))
        upstream.shapes[table.name] = analyses[-1].shape
    return [build(one, analyses) for one in analyses]


@dataclass(frozen=True)
class Analysis:
    """A table whose every expression Spark has accepted, before its plan is built."""

    spec: TableSpec
    context: Context
    pipeline: Any

    @property
    def columnar(self) -> str | None:
        """The stream whose files hold columns that can be read one by one, if that is all the table reads."""
        found = nodes.sources(self.spec.input)
        if self.context.stages != 1 or not found or found[0].name in self.context.feeds:
            return None
        return found[0].name if found[0].connector.format in COLUMNAR else None

    @property
    def shape(self) -> Shape:
        """What tables that read this one see of it."""
        from pyspark.sql.types import StructType

        schema: Any = StructType.fromJson(json.loads(self.pipeline.schema(self.spec.ttl_ms or 0)))
        return Shape(schema, tuple(schema.names[1 : 1 + key_columns(self.spec)]))


def analyze(
    spark: SparkSession,
    spec: TableSpec,
    feeds: Mapping[str, Path],
    home: TableHome | None = None,
    sides: lookups.Lookups | None = None,
    upstream: Upstream | None = None,
) -> Analysis:
    """Hands every expression of the table to Spark's analyzer."""
    upstream = upstream or Upstream(AppSpec(spec.app, tables=(spec,)), {})
    try:
        return _analyzed(Context(spark, spec, feeds, home, sides, upstream, clock=False))
    except BadExpression as error:
        # The batch's time costs a column in every row: only tables that read the clock have it.
        if NEEDS_CLOCK not in error.what:
            raise
    return _analyzed(Context(spark, spec, feeds, home, sides, upstream, clock=True))


def key_columns(spec: TableSpec) -> int:
    """How many columns of a table's row tell it from others."""
    ranked = spec.top is not None and spec.top.order is not None
    return len(spec.keys) + (len(BOUNDS) if closes(spec.window) else 0) + ranked


def _analyzed(context: Context) -> Analysis:
    spec = context.spec
    pipeline = context.declared(spec)
    if context.upstream.taken_back(spec.name):
        pipeline.before()
    return Analysis(spec, context, pipeline)


def _top(context: Context, pipeline: Any, top: TopSpec) -> None:
    with explained(context.spark, "top", context.where("top", top.site), top.order or "latest"):
        pipeline.top(top.n, top.order)


def build(analysis: Analysis, all_tables: list[Analysis]) -> Compiled:
    """The table's plan. Tables of one stream read the same columns, so a row is rejected in the same text."""
    spec, pipeline = analysis.spec, analysis.pipeline
    stream = analysis.columnar
    only = (
        None
        if stream is None
        else list({n for a in all_tables if a.columnar == stream for n in a.pipeline.uses()})
    )
    ttl = spec.ttl_ms or 0
    changes = analysis.context.frame(pipeline.table(ttl, only))
    schema = json.loads(changes.schema.json())["fields"]
    types = tuple((f["name"], json.dumps(f["type"])) for f in schema)
    changes = _sendable(changes, types)
    meaning = {**analysis.context.meaning, **dict(pipeline.meaning())}
    shown = [f for f in schema if f["name"] not in OWN]
    view = ViewSchema.from_spark(spec.name, key_columns(spec), {"fields": shown}, spec.help)

    def rebuilt(state: DataFrame, kept: bool) -> DataFrame:
        return _sendable(analysis.context.frame(pipeline.rebuilt(state._jdf, ttl, kept)), types)

    timed = bool((ttl or closes(spec.window)) and pipeline.hasTime()) or bool(_waiting(spec, timed=True))
    # By the clock something is always due: Spark would run empty batches for ever.
    timed = timed and not _waiting(spec, timed=False)
    return Compiled(spec, changes, meaning, pipeline.stateSchema(ttl), view, timed, rebuilt)


def _sendable(changes: DataFrame, types: tuple[tuple[str, str], ...]) -> DataFrame:
    """Arrow in Python knows no intervals of months; they travel, and are kept, as a number of months."""
    from pyspark.sql import functions as F

    months = [n for n, t in types if t.startswith(('"interval year', '"interval month'))]
    return changes.withColumns(
        {n: F.expr(f"cast(extract(year from `{n}`) * 12 + extract(month from `{n}`) as int)") for n in months}
    )


def _waiting(spec: TableSpec, *, timed: bool) -> list[nodes.Node]:
    """The steps within the table's streams that wait for time to pass: event time, or that of batches."""
    steps = [n for n in nodes.walk(spec.input) if isinstance(n, nodes.Join | nodes.Distinct | nodes.Enrich)]
    return [n for n in steps if _waits(n) and (timeless(n) is None) == timed]


def _waits(step: nodes.Join | nodes.Distinct | nodes.Enrich) -> bool:
    if not isinstance(step, nodes.Enrich):
        return True
    return step.wait_ms is not None or step.keep_ms is not None or step.as_of == "event"


class Context:
    """What the functions for the nodes share while one table is compiled."""

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        feeds: Mapping[str, Path],
        home: TableHome | None,
        sides: lookups.Lookups | None,
        upstream: Upstream,
        *,
        clock: bool,
    ) -> None:
        self.spark, self.spec, self.feeds, self.home, self.clock = spark, spec, feeds, home, clock
        self.api = session.kernel(spark)
        self.lookups = sides or lookups.Lookups(spark, self.api)
        self.upstream = upstream
        waiting = _waiting(spec, timed=True)
        self.timed = spec.ttl_ms is not None or spec.window is not None or bool(waiting)
        self.joins = any(isinstance(node, nodes.Join) for node in nodes.walk(spec.input))
        # Where the stage begins that the table is made of.
        self.base = next(step for step in reversed(nodes.steps(spec.input)) if isinstance(step, STAGES))
        self.stages = 0
        self.meaning: dict[str, str] = {}

    def rows(self, node: nodes.Node) -> Any:
        """The kernel's pipeline at a node."""
        step = STEPS.get(type(node))
        if step is None:
            raise BadExpression(
                f"{type(node).__name__} can't be compiled by this version", where=self.spec.site
            )
        return step(self, node)

    def declared(self, spec: TableSpec) -> Any:
        """The kernel's pipeline of a table: its rows, windows, keys and columns."""
        pipeline = self.rows(spec.input)
        if spec.window is not None:
            _window(self, pipeline, spec.window)
        for name, expression in spec.keys:
            self.at(f"key {name}", expression, spec.site, partial(pipeline.key, name))
        take = pipeline.aggregate if spec.top is None else pipeline.column
        for name, column in spec.columns:
            if isinstance(column, FoldSpec):
                _fold(self, pipeline, name, column)
            else:
                self.at(f"column {name}", column, spec.site, partial(take, name))
        if spec.top is not None:
            _top(self, pipeline, spec.top)
        return pipeline

    def begin(
        self,
        node: nodes.Node,
        frame: DataFrame,
        stream: str | None = None,
        csv: Mapping[str, str] | None = None,
    ) -> Any:
        """A pipeline of the kernel's on a DataFrame, with the stream that its rows are of, if it is one."""
        from pyspark.sql import functions as F

        self.stages += 1
        if node is self.base and self.spec.keep_ms is not None and self.home is not None:
            frame = side.with_replays(frame, self.home.side)
        if self.clock:
            frame = frame.withColumn("_kf_now", F.current_timestamp())
        return self.api.pipeline(
            frame._jdf, self.spec.on_error == "reject", stream, None if csv is None else dict(csv)
        )

    def end(self, pipeline: Any, late: str = "") -> DataFrame:
        """The rows of a pipeline as a DataFrame, for what only Spark can do to them.

        `late`: those "below" the watermark, or "upto" it, are set aside.
        """
        self.mean(pipeline)
        return self.frame(pipeline.rows(late))

    def mean(self, pipeline: Any) -> None:
        """Writes down what a stage means that ends here."""
        for part, text in dict(pipeline.meaning()).items():
            self.meaning[f"{self.stages}:{part}"] = text

    def frame(self, java: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(java, self.spark)

    def where(self, what: str, site: object) -> str:
        """A place in the declaration, as errors name it."""
        return f"{self.spec.app}.{self.spec.name}, {what}" + (f", {site}" if site else "")

    def at(self, what: str, expression: Expr, site: object, act: Callable[[Any], None]) -> None:
        """Hands one expression of the user's to the kernel; what Spark says of it names the place."""
        where = self.where(what, site)
        with explained(self.spark, what, where, spelled(expression)):
            act(column(expression)._jc)


def _source(context: Context, node: nodes.Source) -> Any:
    control = context.home.control / node.name if context.home and context.spec.idle_ms is not None else None
    frame = inputs.read(context.spark, node, context.feeds, context.timed, control, joins=context.joins)
    fed = node.name in context.feeds
    return context.begin(node, frame, node.name, None if fed else inputs.csv_options(node))


def _where(context: Context, node: nodes.Where) -> Any:
    pipeline = context.rows(node.input)
    context.at("where", node.condition, node.site, pipeline.where)
    return pipeline


def _select(context: Context, node: nodes.Select) -> Any:
    pipeline = context.rows(node.input)
    where = context.where("select", node.site)
    shown = ", ".join(spelled(e) if n is None else f"{n}={spelled(e)!r}" for n, e in node.items)
    with explained(context.spark, "select", where, shown):
        pipeline.select([(column(e) if n is None else column(e).alias(n))._jc for n, e in node.items])
    return pipeline


def _transform(context: Context, node: nodes.Transform) -> Any:
    """Rows set aside before the function don't go through it; they are read a second time beside it."""
    from pyspark.sql import functions as F

    before = context.end(context.rows(node.input))
    good = before.where("_kf_bad is null").drop("_kf_bad", "_kf_time")
    where = context.where("transform", node.site)
    with explained(context.spark, "transform", where, getattr(node.fn, "__name__", repr(node.fn))):
        after = node.fn(good)
    if not hasattr(after, "_jdf"):
        raise BadExpression(
            "the function of transform must return a DataFrame", where=where, given=type(after).__name__
        )
    empty = context.spark.createDataFrame([], good.schema)
    context.meaning[f"{context.stages}:transform"] = _meaning_of_function(node.fn, empty)
    blanks = [F.lit(None).cast(f.dataType).alias(f.name) for f in after.schema.fields]
    aside = before.where("_kf_bad is not null").select(*blanks, "_kf_bad")
    together = after.withColumn("_kf_bad", F.lit(None).cast("string")).unionByName(aside)
    times = {s.time.lower() for s in nodes.sources(node) if s.time}
    kept = [c for c in after.columns if c.lower() in times]
    # The function may have left the time out; then there is none from here on.
    if kept and dict(after.dtypes)[kept[0]] != "timestamp":
        raise BadExpression(
            f"the function of transform made the stream's time {kept[0]} something else than a timestamp",
            where=where,
            given=f"{kept[0]} {dict(after.dtypes)[kept[0]]}",
            hint="leave the column as it is and add another, or drop it: tables then go by arrival",
        )
    timed = together.withColumn("_kf_time", F.col(f"`{kept[0]}`")) if kept else together
    return context.begin(node, timed)


def _meaning_of_function(fn: Callable[..., Any], empty: DataFrame) -> str:
    """What a function does to any rows of this schema: Spark's plan of it, without Spark's numbering."""
    plan = fn(empty)._jdf.queryExecution().analyzed().canonicalized().toString()
    return " ".join(re.sub(r"#\d+L?", "", str(plan)).split())


def _union(context: Context, node: nodes.Union) -> Any:
    frames = [context.end(context.rows(branch)) for branch in node.inputs]
    where = context.where("union", node.site)
    if not all("_kf_time" in frame.columns for frame in frames):
        frames = [frame.drop("_kf_time") for frame in frames]
    together = frames[0]
    with explained(context.spark, "union", where, " and ".join(map(nodes.name_of, node.inputs))):
        for frame in frames[1:]:
            together = together.unionByName(frame)
    return context.begin(node, together)


def _distinct(context: Context, node: nodes.Distinct) -> Any:
    pipeline = context.rows(node.input)
    context.mean(pipeline)
    step = words.step_words(node)
    with explained(context.spark, "distinct", context.where("distinct", node.site), ", ".join(node.columns)):
        kept = pipeline.distinct(list(node.columns), node.within_ms, node.removed, step)
    context.meaning[f"{context.stages}:distinct"] = step
    return context.begin(node, context.frame(kept))


STEPS: dict[type, Callable[[Context, Any], Any]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Transform: _transform,
    nodes.Union: _union,
    nodes.Join: joining.joined,
    nodes.LookUp: lookups.looked_up,
    nodes.Distinct: _distinct,
    nodes.Changes: meeting.changed,
    nodes.Enrich: meeting.enriched,
}


def _window(context: Context, pipeline: Any, window: WindowSpec) -> None:
    """Tells the kernel of the table's windows; lengths are milliseconds, zero where there is none."""
    spec = context.spec
    where = context.where(window.kind, window.site)
    with explained(context.spark, window.kind, where, words.window_words(window)):
        if window.kind in ("tumbling", "sliding"):
            pipeline.sliding(window.size_ms, window.every_ms or window.size_ms, window.offset_ms, window.zone)
        elif window.kind == "session" and window.gap is not None:
            pipeline.sessionBy(column(window.gap)._jc)
        elif window.kind == "session":
            pipeline.session(window.size_ms)
        else:
            pipeline.recent(window.size_ms or 0, window.rows or 0, window.every_ms or 0)
        if closes(window):
            pipeline.closes(spec.emit == "changes", spec.keep_ms or 0)


def _fold(context: Context, pipeline: Any, name: str, spec: FoldSpec) -> None:
    def columns(named: nodes.Named) -> list[Any]:
        # in the order of zero, however update and merge were written
        by_name = dict(named)
        return [column(by_name[n])._jc for n, _ in spec.zero]

    parts = {
        "zero": spec.zero,
        "update": spec.update,
        "merge": spec.merge or (),
        "retract": spec.retract or (),
    }
    shown = [f"{part}={ {n: spelled(e) for n, e in named} }" for part, named in parts.items() if named]
    where = context.where(f"column {name}", spec.site)
    assert spec.result is not None
    with explained(
        context.spark, f"fold {name}", where, f"{', '.join(shown)}, result={spelled(spec.result)!r}"
    ):
        fields = [n for n, _ in spec.zero]
        merge, retract = (None if part is None else columns(part) for part in (spec.merge, spec.retract))
        pipeline.fold(
            name, fields, columns(spec.zero), columns(spec.update), merge, retract, column(spec.result)._jc
        )


def column(expression: Expr) -> Any:
    """A Spark column from SQL text, or from the user's function."""
    from pyspark.sql import functions as F

    return F.expr(expression) if isinstance(expression, str) else expression()


def spelled(expression: Expr) -> str:
    return expression if isinstance(expression, str) else f"<function {getattr(expression, '__name__', '?')}>"
