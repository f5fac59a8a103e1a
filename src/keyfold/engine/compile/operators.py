"""The steps of a stream as Spark plans: one function per type of node, found in `STEPS`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keyfold.engine.compile import enrich, join
from keyfold.engine.compile.expressions import column
from keyfold.engine.lookups import registry
from keyfold.engine.sources import reader
from keyfold.engine.spark_errors import explained
from keyfold.errors import BadExpression
from keyfold.plan import nodes
from keyfold.plan.describe import phrases

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from keyfold.engine.compile.context import Context


def _source(context: Context, node: nodes.Source) -> Any:
    control = context.home.control / node.name if context.home and context.spec.idle_ms is not None else None
    keep = context.spec.on_error == "reject"
    frame = reader.read(
        context.spark, node, context.feeds, context.timed, control, joins=context.joins, keep=keep
    )
    return context.begin(node, frame, node.name, reader.texts(node, context.feeds))


def _where(context: Context, node: nodes.Where) -> Any:
    pipeline = context.rows(node.input)
    context.at("where", node.condition, node.site, pipeline.where)
    return pipeline


def _select(context: Context, node: nodes.Select) -> Any:
    pipeline = context.rows(node.input)
    where = context.where("select", node.site)
    shown = ", ".join(
        phrases.expr_words(e) if n is None else f"{n}={phrases.expr_words(e)!r}" for n, e in node.items
    )
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
    if kept:
        # The function may have computed it anew.
        futures = [s.future_ms for s in nodes.sources(node) if s.time]
        known = [future for future in futures if future is not None]
        together = reader.timed(together, kept[0], max(known) if len(known) == len(futures) else None)
    return context.begin(node, together)


def _meaning_of_function(fn: Callable[..., Any], empty: DataFrame) -> str:
    """What a function does to any rows of this schema: Spark's plan of it, without Spark's numbering."""
    plan = fn(empty)._jdf.queryExecution().analyzed().canonicalized().toString()
    return " ".join(re.sub(r"#\d+L?", "", str(plan)).split())


def _union(context: Context, node: nodes.Union) -> Any:
    from pyspark.sql import functions as F

    frames = [context.end(context.rows(branch)) for branch in node.inputs]
    where = context.where("union", node.site)
    if not all("_kf_time" in frame.columns for frame in frames):
        frames = [frame.drop("_kf_time") for frame in frames]
    if any("_kf_weight" in frame.columns for frame in frames):
        # Rows that are never taken back, beside rows that may be.
        frames = [f if "_kf_weight" in f.columns else f.withColumn("_kf_weight", F.lit(1)) for f in frames]
    together = frames[0]
    with explained(context.spark, "union", where, " and ".join(map(nodes.name_of, node.inputs))):
        for frame in frames[1:]:
            together = together.unionByName(frame)
    return context.begin(node, together)


def _distinct(context: Context, node: nodes.Distinct) -> Any:
    pipeline = context.rows(node.input)
    context.mean(pipeline)
    step = phrases.step_words(node)
    with explained(context.spark, "distinct", context.where("distinct", node.site), ", ".join(node.columns)):
        kept = pipeline.dedup(list(node.columns), node.within_ms, node.removed, step)
    context.meaning[f"{context.stages}:distinct"] = step
    return context.begin(node, context.frame(kept))


STEPS: dict[type, Callable[[Context, Any], Any]] = {
    nodes.Source: _source,
    nodes.Where: _where,
    nodes.Select: _select,
    nodes.Transform: _transform,
    nodes.Union: _union,
    nodes.Join: join.joined,
    nodes.LookupJoin: registry.looked_up,
    nodes.Distinct: _distinct,
    nodes.Changes: enrich.changed,
    nodes.Enrich: enrich.enriched,
}
