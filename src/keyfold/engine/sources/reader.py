"""Streams as DataFrames: the rows of their sources, with event time and watermark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.internal_columns import CONTROL, GIVEN, MESSAGE, TIME, visible
from keyfold.engine.session import kernel
from keyfold.engine.sources import injected_rows
from keyfold.engine.sources.connectors import source_of
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import BadExpression, did_you_mean
from keyfold.kernel.api import PartitionClock, java_column
from keyfold.plan.nodes import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(
    spark: SparkSession,
    source: Source,
    feeds: Mapping[str, str | Path],
    watermark: bool,
    control: TableHome | None = None,
    *,
    joins: bool = False,
    reject: bool = True,
    clock: PartitionClock | None = None,
    recorded: DataFrame | None = None,
) -> DataFrame:
    """The stream with keyfold's own columns; with `watermark`, event time advances Spark's watermark.

    `control`: the home of a table whose event time advances by itself. `joins`: whether a join reads it.
    `reject`: whether input that can't be used goes to the side output, or fails the query. `clock`: the
    kernel's `PartitionClock`, where the slowest partition of a topic decides. `recorded`: the rows of the
    stream's log, which are read in place of its source.
    """
    if recorded is not None:
        frame = _with_recorded_time(recorded, source)
    else:
        frame = open_stream(spark, source, feeds, reject=reject)
    if source.time is None or not watermark:
        return frame
    if control is not None:
        frame = injected_rows.with_control(frame, control, source.name)
    # Spark's join drops rows at the watermark, but only rows before it are late: one millisecond more.
    if clock is not None and MESSAGE in frame.columns:
        from pyspark.sql import DataFrame

        marked = kernel(spark).partitionedWatermark(frame._jdf, source.late_ms + joins, clock)
        return DataFrame(marked, spark)
    return frame.withWatermark(TIME, f"{source.late_ms + joins} milliseconds")


def open_stream(
    spark: SparkSession, source: Source, feeds: Mapping[str, str | Path], *, reject: bool = True
) -> DataFrame:
    """The rows of the source, with event time where the stream has one."""
    frame = source_of(source, feeds).open(spark, source, reject=reject)
    if source.time is None:
        return frame
    timed = with_event_time(frame, _time_column(source, frame), source.future_ms)
    if source.until is None:
        return timed
    from pyspark.sql import functions as F

    # Before the watermark, which a row that is left out must not move.
    return timed.where(F.col(TIME).isNull() | (F.col(TIME) < F.lit(source.until)))


def _with_recorded_time(recorded: DataFrame, source: Source) -> DataFrame:
    """Rows of a log with their event time: it was checked against the clock when they were recorded."""
    from pyspark.sql import functions as F

    if source.time is None:
        return recorded
    return recorded.withColumn(TIME, F.col(f"`{_time_column(source, recorded)}`"))


def with_event_time(frame: DataFrame, column: str, future_ms: int | None) -> DataFrame:
    """The frame with the event time of a column.

    An unusable time becomes null, so that it does not move the watermark; the kernel rejects the row.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.classic.column import Column

    given = F.col(f"`{column}`")
    usable: Any = Column(kernel(frame.sparkSession).validEventTime(java_column(given), future_ms))
    if CONTROL in frame.columns:
        usable = F.when(F.col(CONTROL), given).otherwise(usable)
    return frame.withColumns({GIVEN: given, TIME: usable})


def _time_column(source: Source, frame: DataFrame) -> str:
    types = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    assert source.time is not None
    found = types.get(source.time.lower())
    if found is None:
        raise BadExpression(
            f"stream {source.name} has no column {source.time} to take the time from",
            where=source.site,
            given=f"time={source.time!r}",
            hint=did_you_mean(source.time, visible(frame.columns)),
        )
    if found[1] != "timestamp":
        raise BadExpression(
            f"the time of stream {source.name} must be a timestamp",
            where=source.site,
            given=f"{found[0]} {found[1]}",
            hint="declare the column as timestamp, or cast it in a stream of its own",
        )
    return found[0]
