"""Starts queries: with the settings that each has of its own, and with restarts where a failure may pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from keyfold.engine.batch.hook import BatchHook
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.recovery.query_restart import BROKERS_AWAY, SLOTS_TAKEN, SLOW_PYTHON, RestartingQuery
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# A query takes its number of partitions from the session when it starts: one start at a time.
_STARTING = threading.Lock()


def restarting(
    name: str,
    streams: Sequence[nodes.Source],
    hook: BatchHook,
    start: Callable[[], StreamingQuery],
    *,
    python: bool = False,
    realtime: bool = False,
) -> StreamingQuery:
    """Starts a query, with restarts where a failure of it may pass."""
    kafka = any(stream.connector.kafka is not None for stream in streams)
    found = ((BROKERS_AWAY, kafka), (SLOW_PYTHON, python), (SLOTS_TAKEN, realtime))
    passing = [failure for failure, possible in found if possible]
    if not passing:
        return start()
    return cast("StreamingQuery", RestartingQuery(start, name, hook, *passing))


def settings_of(spec: AppSpec, compiled: Compiled, partitions: int) -> dict[str, str]:
    """The settings of the session that a table's query takes with it when it starts."""
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        # In processing time nothing is due without rows, but Spark would run empty batches forever.
        "spark.sql.streaming.noDataMicroBatches.enabled": str(compiled.event_time).lower(),
    }
    if spec.snapshot_every is not None:
        settings["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = str(spec.snapshot_every)
    return settings


def micro_batches(
    spark: SparkSession,
    name: str,
    frame: DataFrame,
    hook: BatchHook,
    settings: Mapping[str, str],
    every_ms: int | None,
    *,
    once: bool = False,
) -> StreamingQuery:
    """Starts a query that runs batch by batch; with `once` it ends after one."""
    writer = (
        frame.writeStream.foreachBatch(hook)
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", hook.home.checkpoint_url)
    )
    if once:
        writer = writer.trigger(once=True)
    elif every_ms:
        writer = writer.trigger(processingTime=f"{every_ms} milliseconds")
    with starting(spark, settings):
        return writer.start()


@contextmanager
def starting(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within it the session has these settings, and no other query starts."""
    with _STARTING:
        before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                spark.conf.unset(key) if old is None else spark.conf.set(key, old)
