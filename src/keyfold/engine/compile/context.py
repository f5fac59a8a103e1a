"""What the functions for the nodes share while one table is compiled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine import session
from keyfold.engine.compile import keyed_state
from keyfold.engine.compile.enrich import Upstream
from keyfold.engine.compile.expressions import column
from keyfold.engine.compile.operators import STEPS
from keyfold.engine.lookups import registry
from keyfold.engine.sources import injected_rows
from keyfold.engine.sources.reader import NO_TEXTS, Texts
from keyfold.engine.spark_errors import explained
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import BadExpression
from keyfold.plan import nodes
from keyfold.plan.describe.phrases import expr_words
from keyfold.plan.nodes import Expr, TableSpec
from keyfold.plan.validate.event_time import timeless

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def waiting(spec: TableSpec, *, timed: bool) -> list[nodes.Node]:
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
        sides: registry.Lookups,
        upstream: Upstream,
        clock: bool,
    ) -> None:
        self.spark, self.spec, self.feeds, self.home, self.clock = spark, spec, feeds, home, clock
        self.api = session.kernel(spark)
        self.lookups = sides
        self.upstream = upstream
        waits = waiting(spec, timed=True)
        folded = spec.ttl_ms is not None or spec.window is not None
        self.timed = folded or spec.process is not None or spec.pattern is not None or bool(waits)
        self.joins = any(isinstance(node, nodes.Join) for node in nodes.walk(spec.input))
        # Where the stage begins that the table is made of.
        self.base = next(step for step in reversed(nodes.steps(spec.input)) if isinstance(step, STAGES))
        self.stages = 0
        self.taken: Counter[int] = Counter()
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
        keyed_state.tell(self, pipeline, spec)
        return pipeline

    def begin(
        self,
        node: nodes.Node,
        frame: DataFrame,
        stream: str | None = None,
        texts: Texts = NO_TEXTS,
    ) -> Any:
        """A pipeline of the kernel's on a DataFrame, with the stream that its rows are of, if it is one."""
        from pyspark.sql import functions as F

        self.stages += 1
        if node is self.base and self.spec.keep_ms is not None and self.home is not None:
            frame = injected_rows.with_replays(frame, self.home.side)
        if self.clock:
            frame = frame.withColumn("_kf_now", F.current_timestamp())
        keep, options = self.spec.on_error == "reject", dict(texts.options)
        return self.api.declare(frame._jdf, keep, stream, texts.format, options, texts.files)

    def end(self, pipeline: Any, late: str = "") -> DataFrame:
        """The rows of a pipeline as a DataFrame, for what only Spark can do to them.

        `late`: those "below" the watermark, or "upto" it, are set aside.
        """
        self.mean(pipeline)
        return self.frame(pipeline.rows(late))

    def mean(self, pipeline: Any) -> None:
        """Writes down what a stage means that ends here."""
        for part, text in json.loads(pipeline.fingerprints()).items():
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
        with explained(self.spark, what, where, expr_words(expression)):
            act(column(expression)._jc)
