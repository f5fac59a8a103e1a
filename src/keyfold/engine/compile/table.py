"""One table's declaration as a Spark plan.

A row node is one function, found by its type in `STEPS`; the kernel's pipeline takes what the user wrote one
item at a time and analyzes it at once, so that an error is about that item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.compile import processor
from keyfold.engine.compile.context import Context, waiting
from keyfold.engine.compile.enrich import Shape, Upstream
from keyfold.engine.log import chain
from keyfold.engine.lookups import registry
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import BadExpression
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec, TableSpec
from keyfold.plan.validate.emit import closes
from keyfold.plan.validate.top_n import key_names
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNAR = ("parquet", "orc")
NEEDS_CLOCK = "KEYFOLD_NEEDS_CLOCK"
OWN = ("_op", "_kf_prev", "_kf_bad")
"""Columns of a table's changes that are keyfold's own."""


@dataclass(frozen=True)
class Compiled:
    """A table ready to run: its changes as a streaming DataFrame, and what it means."""

    spec: TableSpec
    changes: DataFrame
    meaning: dict[str, str]
    state_schema: str
    view: ViewSchema
    event_time: bool
    rebuilt: Callable[[DataFrame, bool], DataFrame] | None
    """The table's rows, from its state as Spark's statestore source reads it, or from windows it keeps.

    None: what the state means is known to a processor of the user's alone, or it is no rows.
    """


def compile_app(
    spark: SparkSession,
    spec: AppSpec,
    feeds: Mapping[str, Path] | None = None,
    place: AppHome | None = None,
    sides: registry.Lookups | None = None,
) -> list[Compiled]:
    """Every table of the app; starts nothing. Without a place nothing is read but the streams."""
    sides = sides or registry.Lookups(spark, session.kernel(spark))
    upstream = Upstream(spec, {})
    analyses = [
        analyze(
            spark, table, feeds or {}, sides, upstream, None if place is None else place.table(table.name)
        )
        for table in spec.tables
    ]
    return [build(one, analyses) for one in analyses]


@dataclass(frozen=True)
class Analysis:
    """A table whose every expression Spark has accepted, before its plan is built."""

    spec: TableSpec
    context: Context
    pipeline: Any
    made: Compiled | None = None
    """The table, if the kernel has not folded it."""

    @property
    def columnar(self) -> str | None:
        """The stream whose files hold columns that can be read one by one, if that is all the table reads."""
        found = nodes.sources(self.spec.input)
        if (
            self.made is not None
            or self.context.stages != 1
            or not found
            or found[0].name in self.context.feeds
        ):
            return None
        return found[0].name if found[0].connector.format in COLUMNAR else None

    @property
    def shape(self) -> Shape:
        """What tables that read this one see of it."""
        from pyspark.sql.types import StructType

        given: Any = (
            StructType.fromJson(json.loads(self.pipeline.changelogSchema(self.spec.ttl_ms or 0)))
            if self.made is None
            else StructType(self.made.changes.schema.fields[:-1])
        )
        schema: Any = chain.plain(given)
        return Shape(schema, tuple(schema.names[1 : 1 + len(key_names(self.spec))]))


def analyze(
    spark: SparkSession,
    spec: TableSpec,
    feeds: Mapping[str, Path],
    sides: registry.Lookups,
    upstream: Upstream,
    home: TableHome | None = None,
) -> Analysis:
    """Hands every expression of the table to Spark's analyzer; tables that read it then know its shape."""
    analyzed = _with_clock(lambda clock: _analyzed(Context(spark, spec, feeds, home, sides, upstream, clock)))
    upstream.shapes[spec.name] = analyzed.shape
    return analyzed


def _with_clock(analyzed: Callable[[bool], Analysis]) -> Analysis:
    """The batch's time costs a column in every row: only tables that read the clock have it."""
    try:
        return analyzed(False)
    except BadExpression as error:
        if NEEDS_CLOCK not in error.what:
            raise
    return analyzed(True)


def _analyzed(context: Context) -> Analysis:
    spec = context.spec
    if spec.process is not None:
        return Analysis(spec, context, None, processor.processed(context, spec))
    pipeline = context.declared(spec)
    if context.upstream.taken_back(spec.name):
        pipeline.emitPreviousRows()
    return Analysis(spec, context, pipeline)


def build(analysis: Analysis, all_tables: list[Analysis]) -> Compiled:
    """The table's plan. Tables of one stream read the same columns, so a row is rejected in the same text."""
    if analysis.made is not None:
        return analysis.made
    spec, pipeline = analysis.spec, analysis.pipeline
    stream = analysis.columnar
    only = (
        None
        if stream is None
        else list({n for a in all_tables if a.columnar == stream for n in a.pipeline.sourceColumns()})
    )
    ttl = spec.ttl_ms or 0
    changes = analysis.context.frame(pipeline.changelog(ttl, only))
    schema = json.loads(changes.schema.json())["fields"]
    types = tuple((f["name"], json.dumps(f["type"])) for f in schema)
    changes = _sendable(changes, types)
    meaning = {**analysis.context.meaning, **json.loads(pipeline.fingerprints())}
    shown = [f for f in schema if f["name"] not in OWN]
    view = ViewSchema.from_spark(spec.name, len(key_names(spec)), {"fields": shown}, spec.help)
    if spec.pattern is not None:
        # Matches of a key by time, not by their identity, which is a hash.
        view = replace(view, order=(*(key.name for key in view.keys[:-1]), "started", "ended"))

    def rebuilt(state: DataFrame, kept: bool) -> DataFrame:
        return _sendable(analysis.context.frame(pipeline.rowsFromState(state._jdf, ttl, kept)), types)

    ends = ttl or closes(spec.window) or spec.pattern is not None
    timed = bool(ends and pipeline.hasEventTime()) or bool(waiting(spec, timed=True))
    # By the clock something is always due: Spark would run empty batches for ever.
    timed = timed and not waiting(spec, timed=False)
    return Compiled(
        spec, changes, meaning, pipeline.stateSchema(ttl), view, timed, None if spec.pattern else rebuilt
    )


def _sendable(changes: DataFrame, types: tuple[tuple[str, str], ...]) -> DataFrame:
    """Arrow in Python knows no intervals of months; they travel, and are kept, as a number of months."""
    from pyspark.sql import functions as F

    months = [n for n, t in types if t.startswith(('"interval year', '"interval month'))]
    return changes.withColumns(
        {n: F.expr(f"cast(extract(year from `{n}`) * 12 + extract(month from `{n}`) as int)") for n in months}
    )
