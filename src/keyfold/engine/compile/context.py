"""What the operators share while one table is compiled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from keyfold.engine import session
from keyfold.engine.compile.expressions import column
from keyfold.engine.compile.upstream import Upstream
from keyfold.engine.internal_columns import NOW
from keyfold.engine.log import partition_times
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.sources import injected_rows
from keyfold.engine.sources.contract import RowOrigin
from keyfold.engine.spark_errors import explain_errors
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import BadExpression
from keyfold.kernel.api import DeclaredRows, JavaColumn, JavaFrame, PartitionClock, TableDeclaration
from keyfold.plan import nodes, tree
from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import Expr, TableSpec
from keyfold.plan.pattern.syntax import PatternSpec
from keyfold.plan.validate.event_time import source_without_event_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

STAGES = (
    nodes.Source,
    nodes.Union,
    nodes.Transform,
    nodes.LookupJoin,
    nodes.Join,
    nodes.Enrich,
    nodes.Distinct,
    nodes.Changes,
)
"""Nodes that begin a stage of their own; others are part of the stage below them."""

NOT_TEXT: Final = RowOrigin()


def waiting(spec: TableSpec, *, timed: bool) -> list[nodes.Node]:
    """The steps of the table's streams that wait for time: event time (`timed`), or processing time."""
    steps = [n for n in tree.walk(spec.input) if isinstance(n, nodes.Join | nodes.Distinct | nodes.Enrich)]
    return [n for n in steps if _waits(n) and (source_without_event_time(n) is None) == timed]


def _waits(step: nodes.Join | nodes.Distinct | nodes.Enrich) -> bool:
    if not isinstance(step, nodes.Enrich):
        return True
    return step.wait_ms is not None or step.keep_ms is not None or step.as_of == "event"


@dataclass(frozen=True)
class RecordedStream:
    """The log of a stream as a table reads it: its columns, which use it is, and where it is."""

    schema: StructType
    number: int
    log: str | None = None
    inputs: str | None = None


class Context:
    """What the operators share while one table is compiled.

    `steps` has the function that compiles each type of node, `recorded` the streams that are read from their
    logs. `begins`: the event time from which on the table takes rows of its stream, in microseconds.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        steps: Mapping[type, Callable[[Any, Any], TableDeclaration]],
        feeds: Mapping[str, str | Path],
        home: TableHome | None,
        lookups: Lookups,
        upstream: Upstream,
        clock: bool,
        recorded: Mapping[str, RecordedStream],
        begins: int | None = None,
    ) -> None:
        self.spark, self.spec, self.feeds, self.home, self.clock = spark, spec, feeds, home, clock
        self.api = session.kernel(spark)
        self.lookups = lookups
        self.upstream = upstream
        self.recorded, self.begins = recorded, begins
        self._steps = steps
        # Rows that a test feeds in place of a source come in batches.
        self.realtime = spec.latency is not None and not any(
            source.name in feeds for source in tree.sources(spec.input)
        )
        waits = waiting(spec, timed=True)
        folded = spec.ttl_ms is not None or spec.window is not None
        self.timed = folded or isinstance(spec.body, nodes.ProcessSpec | PatternSpec) or bool(waits)
        self.joins = any(isinstance(node, nodes.Join) for node in tree.walk(spec.input))
        # The first node of the stage that ends in the table.
        self.base = next(step for step in reversed(tree.steps(spec.input)) if isinstance(step, STAGES))
        self.stages = 0
        self.meaning: dict[str, str] = {}
        self._uses: Counter[int] = Counter()
        self.clocks: dict[str, PartitionClock] = {}
        """The kernel's clocks of the partitions of topics, by stream."""

    @property
    def reject(self) -> bool:
        """Whether rows that can't be used go to the side output; otherwise they fail the query."""
        return self.spec.on_error == "reject"

    def rows(self, node: nodes.Node) -> TableDeclaration:
        """The declaration at a node."""
        step = self._steps.get(type(node))
        if step is None:
            raise BadExpression(
                f"{type(node).__name__} can't be compiled by this version", where=self.spec.site
            )
        return step(self, node)

    def use_of(self, node: nodes.Changes | nodes.Enrich) -> int:
        """The position in `tree.reads` of this reading of a table; a node may stand in several places."""
        places = [i for i, n in enumerate(tree.reads(self.spec.input)) if n is node]
        self._uses[id(node)] += 1
        return places[(self._uses[id(node)] - 1) % len(places)]

    def partition_clock(self, node: nodes.Source) -> PartitionClock | None:
        """The kernel's clock of the partitions of a stream's topics; None where it has none."""
        if node.connector.kafka is None or node.time is None or not self.timed:
            return None
        if node.name not in self.clocks:
            begun = {} if self.home is None else partition_times.newest_times(self.home, node.name)
            self.clocks[node.name] = self.api.partitionClock(self.spec.idle_ms, json.dumps(begun))
        return self.clocks[node.name]

    def begin(
        self, node: nodes.Node, frame: DataFrame, stream: str | None = None, origin: RowOrigin = NOT_TEXT
    ) -> TableDeclaration:
        """A declaration on a DataFrame; `stream` is that of its rows, if there is only one."""
        from pyspark.sql import functions as F

        self.stages += 1
        if node is self.base and self.spec.keep_ms is not None and self.home is not None:
            frame = injected_rows.with_replays(frame, self.home)
        if self.clock:
            frame = frame.withColumn(NOW, F.current_timestamp())
        options = dict(origin.options)
        return self.api.declare(frame._jdf, self.reject, stream, origin.format, options, origin.files)

    def end(self, declaration: DeclaredRows, late: Literal["below", "upto"] | None = None) -> DataFrame:
        """The declared rows as a DataFrame, for an operator of Spark's.

        `late`: rows "below" the watermark, or "upto" it, go to the side output.
        """
        self.record_meaning(declaration)
        return self.frame(declaration.rows(late))

    def record_meaning(self, declaration: DeclaredRows) -> None:
        """Adds the meaning of the stage that ends here to that of the table."""
        for part, text in json.loads(declaration.fingerprints()).items():
            self.meaning[f"{self.stages}:{part}"] = text

    def frame(self, java: JavaFrame) -> DataFrame:
        """A DataFrame of the kernel in Python."""
        from pyspark.sql import DataFrame

        return DataFrame(java, self.spark)

    def where(self, what: str, site: object) -> str:
        """A place in the declaration, as errors name it."""
        return f"{self.spec.app}.{self.spec.name}, {what}" + (f", {site}" if site else "")

    def at(self, what: str, expression: Expr, site: object, act: Callable[[JavaColumn], None]) -> None:
        """Hands one expression of the user to the kernel; errors name its place in the declaration."""
        where = self.where(what, site)
        with explain_errors(self.spark, what, where, expr_words(expression)):
            act(column(expression)._jc)
