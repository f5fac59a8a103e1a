"""A table's rows, computed from its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import HomeUnusable
from keyfold.plan.pattern.syntax import PatternSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def from_state(
    spark: SparkSession, compiled: Compiled, home: TableHome, batch: int
) -> Iterator[pa.RecordBatch]:
    """The table's rows as of a batch, without those of closed windows that are not retained."""
    if compiled.rebuilt is None:
        raise HomeUnusable(
            f"the view of {compiled.name} is behind its state, {_opaque(compiled)}, so it can't be rebuilt",
            given=f"{home.shown}/checkpoint, batch {batch}",
            hint=f"restore {home.app.views.name} from a backup; or run without views; or `keyfold reset "
            f"{compiled.name}`, after which it starts from the first row",
        )
    wanted = compiled.view.arrow
    for kept in (False,) if compiled.spec.keep_ms is None else (False, True):
        for found in arrow_batches(compiled.rebuilt(_state(spark, home, batch, kept), kept)):
            columns = [found.column(field.name).cast(field.type) for field in wanted]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _opaque(compiled: Compiled) -> str:
    if isinstance(compiled.spec.body, PatternSpec):
        return "which has partial matches but not the completed ones"
    return "which only its processor can interpret"


def _state(spark: SparkSession, home: TableHome, batch: int, kept: bool) -> DataFrame:
    return (
        spark.read.format("statestore")
        .option("path", home.checkpoint_url)
        .option("stateVarName", "kept" if kept else "state")
        .option("batchId", batch)
        .load()
    )


def arrow_batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """The frame's rows as they are computed, a record batch at a time: Python never holds them all.

    Batches of one partition come in order, those of different partitions in any order; the rows of a key are
    in one partition.
    """
    import pyarrow as pa
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.util import _load_from_socket

    port, secret, server = frame._jdf.collectAsArrowToPython()
    with _load_from_socket((port, secret), ArrowStreamSerializer()) as stream:
        while True:
            try:
                found = next(stream, None)
            except (pa.ArrowException, OSError, EOFError):
                # A job that fails ends the stream early; the server's result has the cause.
                server.getResult()
                raise
            if found is None:
                break
            yield found
    server.getResult()
