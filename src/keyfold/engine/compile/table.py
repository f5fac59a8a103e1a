"""Compiles a table's declaration into a Spark plan.

Each node is compiled by the function of its type in `STEPS`. The kernel's `TableDeclaration` (in Python:
`declaration`) takes what the user declared item by item, and analyzes each at once, so that an error is about
that item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.compile import processor
from keyfold.engine.compile.changelog_source import parquet_type
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.context import Context, RecordedStream, waiting
from keyfold.engine.compile.keyed_state import declare_table
from keyfold.engine.compile.operators import STEPS
from keyfold.engine.compile.stream import CompiledStream, recorded_streams
from keyfold.engine.compile.upstream import ChangeSchema, Upstream
from keyfold.engine.internal_columns import CHANGE_COLUMNS
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.sources.formats import format_of
from keyfold.engine.spark_errors import NeedsClock
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.kernel.api import TableDeclaration
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec, ProcessSpec, TableSpec
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.table_keys import closes, key_names
from keyfold.views.contract import ViewSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compile_app(
    spark: SparkSession,
    spec: AppSpec,
    feeds: Mapping[str, str | Path] | None = None,
    home: AppHome | None = None,
    lookups: Lookups | None = None,
    shared: SharedStreams | None = None,
    streams: Mapping[str, CompiledStream] | None = None,
    begins: Mapping[str, int] | None = None,
) -> list[Compiled]:
    """Compiles every table of the app and starts nothing. Without a `home` only the streams are read.

    `streams`: those that have a log, and are compiled already. `begins`: the event time from which on a table
    that began with other rows takes those of its stream, in microseconds.
    """
    lookups = lookups or Lookups(spark, session.kernel(spark))
    shared = shared or SharedStreams(spec)
    upstream, analyses = Upstream(spec, {}), []
    for table in spec.tables:
        table_home = None if home is None else home.table(table.name)
        recorded = recorded_streams(shared, streams or {}, table, home)
        after = (begins or {}).get(table.name)
        analyses.append(analyze(spark, table, feeds or {}, lookups, upstream, table_home, recorded, after))
    return [build(one, analyses) for one in analyses]


@dataclass(frozen=True)
class Analysis:
    """A table whose every expression Spark has accepted, before its plan is built."""

    spec: TableSpec
    context: Context
    declaration: TableDeclaration | None
    """None of a processor, which keeps its state itself."""
    processed: Compiled | None = None
    """The table, if a processor keeps its state and not the kernel."""

    @property
    def columnar(self) -> str | None:
        """The stream of a columnar format, or with a log, if the table reads nothing else."""
        found = tree.sources(self.spec.input)
        if self.declaration is None or self.context.stages != 1 or not found:
            return None
        name = found[0].name
        if name in self.context.recorded:
            return name
        columnar = format_of(found[0].connector.format).columnar and name not in self.context.feeds
        return name if columnar else None

    @property
    def recorded_time(self) -> set[str]:
        """The time column of a stream that is read from its log, as the log has it."""
        source = tree.sources(self.spec.input)[0]
        recorded = self.context.recorded.get(source.name)
        names = () if recorded is None or source.time is None else recorded.schema.names
        return {name for name in names if name.lower() == str(source.time).lower()}

    @property
    def change_schema(self) -> ChangeSchema:
        """The table's changes as other tables read them."""
        from pyspark.sql.types import StructType

        if self.processed is not None:
            found = StructType(self.processed.changes.schema.fields[:-1])
        else:
            assert self.declaration is not None
            found = StructType.fromJson(json.loads(self.declaration.changelogSchema()))
        schema: Any = parquet_type(found)
        return ChangeSchema(schema, tuple(schema.names[1 : 1 + len(key_names(self.spec))]))


def analyze(
    spark: SparkSession,
    spec: TableSpec,
    feeds: Mapping[str, str | Path],
    lookups: Lookups,
    upstream: Upstream,
    home: TableHome | None = None,
    recorded: Mapping[str, RecordedStream] | None = None,
    begins: int | None = None,
) -> Analysis:
    """Has Spark analyze every expression of the table; tables that read it then know its schema."""
    analyzed = _with_clock(
        lambda clock: _analyze(
            Context(spark, spec, STEPS, feeds, home, lookups, upstream, clock, recorded or {}, begins)
        )
    )
    upstream.schemas[spec.name] = analyzed.change_schema
    return analyzed


def _with_clock(analyzed: Callable[[bool], Analysis]) -> Analysis:
    """Analyzes a table again if it reads the clock: the batch's timestamp costs a column in every row."""
    try:
        return analyzed(False)
    except NeedsClock:
        return analyzed(True)


def _analyze(context: Context) -> Analysis:
    spec = context.spec
    if isinstance(spec.body, ProcessSpec):
        return Analysis(spec, context, None, processor.compile_processor(context, spec, spec.body))
    declaration = declare_table(context, spec)
    if context.upstream.is_retracted(spec.name):
        declaration.emitPreviousRows()
    if context.realtime:
        declaration.rowByRow()
    return Analysis(spec, context, declaration)


def build(analysis: Analysis, all_tables: list[Analysis]) -> Compiled:
    """The table's plan."""
    if analysis.processed is not None:
        return analysis.processed
    spec, declaration = analysis.spec, analysis.declaration
    assert declaration is not None
    changes = analysis.context.frame(declaration.changelog(_used_columns(analysis, all_tables)))
    fields = json.loads(changes.schema.json())["fields"]
    types = tuple((f["name"], json.dumps(f["type"])) for f in fields)
    meaning = {**analysis.context.meaning, **json.loads(declaration.fingerprints())}

    def rebuilt(state: DataFrame, kept: bool) -> DataFrame:
        return _sendable(analysis.context.frame(declaration.rowsFromState(state._jdf, kept)), types)

    return Compiled(
        spec,
        _sendable(changes, types),
        meaning,
        declaration.stateSchema(),
        _view(spec, fields),
        _waits_for_event_time(spec, declaration),
        None if isinstance(spec.body, PatternSpec) else rebuilt,
        analysis.context.clocks,
        json.loads(declaration.stateFields()),
        declaration.migration,
        analysis.context.realtime,
    )


def _used_columns(analysis: Analysis, all_tables: list[Analysis]) -> list[str] | None:
    """The columns that the tables of a columnar stream use: all then reject a row with the same text."""
    stream = analysis.columnar
    if stream is None:
        return None
    together = [a.declaration for a in all_tables if a.declaration is not None and a.columnar == stream]
    used = {name for declaration in together for name in declaration.sourceColumns()}
    # The event time of a log is read in any case, and is good to have in the text of a late row.
    return list(used | analysis.recorded_time)


def _view(spec: TableSpec, fields: list[dict[str, Any]]) -> ViewSchema:
    shown = [f for f in fields if f["name"] not in CHANGE_COLUMNS]
    keys = len(key_names(spec))
    view = ViewSchema.from_spark(spec.name, keys, {"fields": shown}, spec.help, spec.private)
    if not isinstance(spec.body, PatternSpec):
        return view
    # Matches of a key by time, not by their id, which is a hash.
    return replace(view, order=(*(key.name for key in view.keys[:-1]), "started", "ended"))


def _waits_for_event_time(spec: TableSpec, declaration: TableDeclaration) -> bool:
    """Whether something may be due as event time passes, so that Spark must run batches without rows."""
    ends = spec.ttl_ms or closes(spec.window) or isinstance(spec.body, PatternSpec)
    timed = (bool(ends) and declaration.hasEventTime()) or bool(waiting(spec, timed=True))
    # In processing time something is always due: Spark would run empty batches forever.
    return timed and not waiting(spec, timed=False)


def _sendable(changes: DataFrame, types: tuple[tuple[str, str], ...]) -> DataFrame:
    """The changes with intervals of months as numbers, since PyArrow has no such type."""
    from pyspark.sql import functions as F

    months = [n for n, t in types if t.startswith(('"interval year', '"interval month'))]
    return changes.withColumns(
        {n: F.expr(f"cast(extract(year from `{n}`) * 12 + extract(month from `{n}`) as int)") for n in months}
    )
