"""Starts a table in real-time mode, after what it may have left to do as a table of batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING

from keyfold.engine import session
from keyfold.engine.batch.realtime_hook import RealTimeHook
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.followers.kafka_sink import KafkaSinkFollower
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.query_start import micro_batches, restarting, starting
from keyfold.engine.realtime import slots
from keyfold.engine.realtime.query import MIN_DURATION, RealTimeQuery, batch_ms
from keyfold.engine.realtime.slots import Need
from keyfold.engine.sources import kafka
from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(
    spark: SparkSession, app: AppSpec, table: Compiled, hook: RealTimeHook, settings: Mapping[str, str]
) -> StreamingQuery:
    """Starts the table's query."""
    (stream,) = tree.sources(table.spec.input)
    # With the settings of Kafka's clients that this start has.
    context = copy_context()
    _finish_batch(spark, table, hook, settings)
    _hand_over_sinks(spark, table, hook)
    hook.prepare(lambda: context.copy().run(kafka.offsets, spark, stream.connector, {}).last)
    length = batch_ms(app, table.spec)
    query, own = RealTimeQuery(spark, table, hook, length), {**settings, MIN_DURATION: str(length)}

    def begin() -> StreamingQuery:
        with starting(spark, own):
            return query.start()

    return restarting(table.name, [stream], hook, begin, realtime=True)


def partitions(
    spark: SparkSession,
    app: str,
    tables: Iterable[Compiled],
    fixed: Mapping[str, int],
    topics: Mapping[str, TopicOffsets],
) -> dict[str, int]:
    """The state partitions of the tables in real-time mode, if there are slots for all of their tasks."""
    found = {t.spec.name: _source_partitions(t, topics) for t in tables if t.realtime}
    if not found:
        return {}
    available = session.kernel(spark).taskSlots(spark._jsparkSession)
    state = slots.state_partitions(found, {n: fixed[n] for n in found if n in fixed}, available)
    slots.check(app, [Need(name, count, state[name]) for name, count in found.items()], available)
    return state


def forget_first_batch(stored: StoredApp, table: str, home: TableHome) -> None:
    """Removes the state of a table whose first batch was interrupted in real-time mode.

    Spark writes there what a batch has read when it ends, and refuses state that comes before that when the
    table runs batch by batch.
    """
    fast = stored.declared_tables.get(table, {}).get("latency") is not None
    begun = home.planned_batch() is not None or home.committed_batch() is not None
    if fast and not begun and TableLog(home.log_files).newest() is None and home.spark.state.exist():
        home.storage.delete("checkpoint/state")


def _source_partitions(table: Compiled, topics: Mapping[str, TopicOffsets]) -> int:
    return sum(len(topics[source.name].partitions) for source in tree.sources(table.spec.input))


def _finish_batch(
    spark: SparkSession, table: Compiled, hook: RealTimeHook, settings: Mapping[str, str]
) -> None:
    """Commits a batch that was published when the table ran batch by batch, and not committed.

    In real-time mode Spark would forget how far it had read, and run a batch of that number with other rows.
    """
    newest, committed = hook.log.newest(), hook.home.committed_batch()
    if newest is not None and newest > (-1 if committed is None else committed):
        query = micro_batches(spark, table.name, table.changes, hook, settings, None, once=True)
        query.awaitTermination()


def _hand_over_sinks(spark: SparkSession, table: Compiled, hook: RealTimeHook) -> None:
    """Writes what the table's topics still lack of the log, and forgets the positions of their writers.

    From now on tasks write the topics. If the table runs batch by batch again, its writers are new.
    """
    newest = hook.log.newest()
    for name, sink in table.spec.sinks:
        if hook.home.sink(name).exists():
            follower = KafkaSinkFollower(
                spark, hook.home, table, name, sink, -1 if newest is None else newest
            )
            follower.start()
            follower.wait_for(sys.maxsize)
            follower.close()
            hook.home.sink(name).delete()
