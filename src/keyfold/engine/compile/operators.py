"""The operators of a stream: one function per type of node, found in `STEPS`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile import changelog_source, enrich, join, lookup, stream
from keyfold.engine.compile.context import NOT_TEXT, Context
from keyfold.engine.compile.expressions import column
from keyfold.engine.internal_columns import ROW_ID, SIDE_OUTPUT, TIME, WEIGHT
from keyfold.engine.sources import reader
from keyfold.engine.sources.connectors import source_of
from keyfold.engine.spark_errors import explain_errors
from keyfold.errors import BadExpression
from keyfold.kernel.api import TableDeclaration
from keyfold.plan import nodes, tree
from keyfold.plan.describe import phrases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _source(context: Context, node: nodes.Source) -> TableDeclaration:
    if context.realtime and node.connector.kafka is not None:
        unlimited = replace(node.connector.kafka, unlimited=True)
        node = replace(node, connector=replace(node.connector, kafka=unlimited))
    control = context.home if context.spec.idle_ms is not None else None
    recorded = stream.recorded_rows(context, node)
    frame = reader.read(
        context.spark,
        node,
        context.feeds,
        context.timed,
        control,
        joins=context.joins,
        reject=context.reject,
        clock=context.partition_clock(node),
        recorded=recorded,
    )
    origin = source_of(node, context.feeds).origin(node) if recorded is None else NOT_TEXT
    declaration = context.begin(node, frame, node.name, origin)
    if context.begins is not None and node.time is not None:
        declaration.afterInitialRows(context.begins)
    return declaration


def _where(context: Context, node: nodes.Where) -> TableDeclaration:
    declaration = context.rows(node.input)
    context.at("where", node.condition, node.site, declaration.where)
    return declaration


def _select(context: Context, node: nodes.Select) -> TableDeclaration:
    declaration = context.rows(node.input)
    where = context.where("select", node.site)
    shown = ", ".join(
        phrases.expr_words(e) if n is None else f"{n}={phrases.expr_words(e)!r}" for n, e in node.items
    )
    with explain_errors(context.spark, "select", where, shown):
        declaration.select([(column(e) if n is None else column(e).alias(n))._jc for n, e in node.items])
    return declaration


def _transform(context: Context, node: nodes.Transform) -> TableDeclaration:
    """Side outputs don't go through the user's function; the input is read a second time for them."""
    before = context.end(context.rows(node.input))
    usable = before.where(f"{SIDE_OUTPUT} is null").drop(SIDE_OUTPUT, TIME)
    where = context.where("transform", node.site)
    with explain_errors(context.spark, "transform", where, getattr(node.fn, "__name__", repr(node.fn))):
        after = node.fn(usable)
    if not hasattr(after, "_jdf"):
        raise BadExpression(
            "the function of transform must return a DataFrame", where=where, given=type(after).__name__
        )
    empty = context.spark.createDataFrame([], usable.schema)
    context.meaning[f"{context.stages}:transform"] = _meaning_of_function(node.fn, empty)
    return context.begin(node, _with_event_time(_with_side_outputs(before, after), after, node, where))


def _with_side_outputs(before: DataFrame, after: DataFrame) -> DataFrame:
    """The transformed rows and the side outputs of the rows before."""
    from pyspark.sql import functions as F

    blanks = [F.lit(None).cast(f.dataType).alias(f.name) for f in after.schema.fields]
    side = before.where(f"{SIDE_OUTPUT} is not null").select(*blanks, SIDE_OUTPUT)
    none = F.lit(None).cast(before.schema[SIDE_OUTPUT].dataType)
    return after.withColumn(SIDE_OUTPUT, none).unionByName(side)


def _with_event_time(rows: DataFrame, after: DataFrame, node: nodes.Transform, where: str) -> DataFrame:
    """The rows with event time, if the function kept the stream's time column; it may have recomputed it."""
    timed = [source for source in tree.sources(node) if source.time]
    times = {str(source.time).lower() for source in timed}
    kept = next((c for c in after.columns if c.lower() in times), None)
    if kept is None:
        return rows
    if dict(after.dtypes)[kept] != "timestamp":
        raise BadExpression(
            "the function of transform changed the type of "
            f"the stream's time {kept}, which must be a timestamp",
            where=where,
            given=f"{kept} {dict(after.dtypes)[kept]}",
            hint="leave the column as it is and add another, or drop it: tables then order rows by arrival",
        )
    futures = [source.future_ms for source in timed]
    known = [future for future in futures if future is not None]
    return reader.with_event_time(rows, kept, max(known) if len(known) == len(futures) else None)


def _meaning_of_function(fn: Callable[..., Any], empty: DataFrame) -> str:
    """What a function does to rows of this schema: Spark's plan of it, without Spark's numbering."""
    plan = fn(empty)._jdf.queryExecution().analyzed().canonicalized().toString()
    return " ".join(re.sub(r"#\d+L?", "", str(plan)).split())


def _union(context: Context, node: nodes.Union) -> TableDeclaration:
    from pyspark.sql import functions as F

    frames = [context.end(context.rows(branch)) for branch in node.inputs]
    where = context.where("union", node.site)
    if not all(TIME in frame.columns for frame in frames):
        frames = [frame.drop(TIME) for frame in frames]
    if any(WEIGHT in frame.columns for frame in frames):
        # Rows of an append-only stream, beside those of a retracting one.
        frames = [f if WEIGHT in f.columns else f.withColumn(WEIGHT, F.lit(1)) for f in frames]
    kinds = [frame.schema[ROW_ID].dataType for frame in frames if ROW_ID in frame.columns]
    for kind in kinds[:1]:
        none = F.lit(None).cast(kind)
        frames = [f if ROW_ID in f.columns else f.withColumn(ROW_ID, none) for f in frames]
    together = frames[0]
    with explain_errors(context.spark, "union", where, " and ".join(map(tree.name_of, node.inputs))):
        for frame in frames[1:]:
            together = together.unionByName(frame)
    return context.begin(node, together)


def _distinct(context: Context, node: nodes.Distinct) -> TableDeclaration:
    declaration = context.rows(node.input)
    context.record_meaning(declaration)
    step = phrases.step_words(node)
    with explain_errors(
        context.spark, "distinct", context.where("distinct", node.site), ", ".join(node.columns)
    ):
        kept = declaration.dedup(list(node.columns), node.within_ms, node.record_duplicates, step)
    context.meaning[f"{context.stages}:distinct"] = step
    return context.begin(node, context.frame(kept))


STEPS: dict[type, Callable[[Context, Any], TableDeclaration]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Transform: _transform,
    nodes.Union: _union,
    nodes.Join: join.compile_join,
    nodes.LookupJoin: lookup.lookup_join,
    nodes.Distinct: _distinct,
    nodes.Changes: changelog_source.changelog,
    nodes.Enrich: enrich.compile_enrich,
}
