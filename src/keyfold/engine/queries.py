"""Starts the queries of an app: one for each table, and one for each stream that has a log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

from keyfold.engine import session
from keyfold.engine.batch.hook import BatchHook, TableHook
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.followers.follower import Follower
from keyfold.engine.followers.kafka_history import history_follower
from keyfold.engine.followers.readers import TablesThatRead
from keyfold.engine.followers.sink import sink_follower
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.handle import Handle
from keyfold.engine.log import readers, retention
from keyfold.engine.log.log_writer import LogWriter
from keyfold.engine.log.readers import Use
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.query_failure import of_table
from keyfold.engine.recovery.query_restart import BROKERS_AWAY, SLOW_PYTHON, RestartingQuery
from keyfold.engine.storage.lease import Lease
from keyfold.plan import nodes
from keyfold.plan.nodes import AppSpec, TableSpec
from keyfold.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# A query takes its number of partitions from the session when it starts: one start at a time.
_STARTING = threading.Lock()


class Queries:
    """The queries of one run, which are started one after the other and then belong to its handle."""

    def __init__(self, handle: Handle, lease: Lease, settings: Settings) -> None:
        self.handle, self.lease, self.settings = handle, lease, settings
        self.spec, self.shared = handle.spec, handle.shared
        self.spark, self.place = handle.spark, handle.home

    def start_stream(self, stream: CompiledStream) -> None:
        """Starts the query that records a stream in its log."""
        name, kernel = stream.spec.name, session.kernel(self.spark)
        home = self.place.stream_home(name)
        log = TableLog(home.log_files)
        writer = LogWriter(kernel, log, name, self.lease)
        writer.sweep()
        hook = BatchHook(
            name,
            home,
            writer,
            changes=True,
            followers=[TablesThatRead(kernel, home.log_url)],
            prune=lambda: self._prune(log, writer, stream.spec.history_ms, self.shared.uses_of(name)),
        )
        self.handle.hooks[name] = hook
        begin = partial(_query, self.spark, stream.name, stream.rows, hook, {}, self.spec.every_ms)
        with of_table(self.spec.name, name, home):
            self.handle.queries[name] = _begun(stream.name, [stream.spec], False, hook, begin)

    def start_table(self, table: Compiled, partitions: int, changelog: bool) -> None:
        """Starts the query of a table, and what follows its log. `changelog`: its changes stay in the log."""
        name = table.spec.name
        home = self.place.table(name)
        home.sweep()
        log, kernel = TableLog(home.log_files), session.kernel(self.spark)
        writer = LogWriter(kernel, log, name, self.lease)
        writer.sweep()
        followers = self._followers(table, log)
        uses = readers.readers(self.spec, name)
        read = bool(followers or uses or changelog)
        hook = TableHook(
            table.spec,
            home,
            table.view,
            writer,
            changes=read or table.spec.history_ms is not None,
            followers=[*followers, *([TablesThatRead(kernel, home.log_url)] if uses else [])],
            lag=self.settings.view_lag,
            prune=lambda: (
                None if changelog else self._prune(log, writer, table.spec.history_ms, uses, followers)
            ),
            clocks=table.clocks,
        )
        self.handle.hooks[name] = hook
        for follower in followers:
            self.handle.followers.append(follower)
            follower.start()
        settings = _settings(self.spec, table, partitions)
        begin = partial(
            _query, self.spark, table.name, table.changes, hook, settings, self._every(table.spec)
        )
        with of_table(self.spec.name, name, home):
            read_by = nodes.sources(table.spec.input)
            python = table.spec.process is not None
            self.handle.queries[name] = _begun(table.name, read_by, python, hook, begin)

    def _every(self, table: TableSpec) -> int | None:
        """The time between batches of a table; one that reads logs of streams alone keeps their pace."""
        direct = {s.name for s in nodes.queried_sources(self.spec, table)} - set(self.shared.of(table))
        return self.spec.every_ms if direct or nodes.reads(table.input) else None

    def _prune(
        self,
        log: TableLog,
        writer: LogWriter,
        history_ms: int | None,
        uses: Sequence[Use],
        followers: Sequence[Follower] = (),
    ) -> None:
        """Removes the batches of a log that everybody has read and whose history is over."""
        positions = [follower.position for follower in followers]
        positions += [readers.kept_after(self.place, use) for use in uses]
        read_upto = min(positions, default=sys.maxsize)
        history = None if history_ms is None else timedelta(milliseconds=history_ms)
        retention.prune(log, read_upto, history, writer.newest)

    def _followers(self, table: Compiled, log: TableLog) -> list[Follower]:
        """The view and the sinks of a table."""
        found: list[Follower] = []
        if self.settings.views != "none":
            found.append(ViewFollower(log, self.handle.store, table.view))
        home, newest = self.place.table(table.spec.name), log.newest()
        for number, connector in enumerate(table.spec.sinks):
            begin = -1 if newest is None else newest
            found.append(sink_follower(self.spark, home, table, number, connector, begin))
        if table.spec.history_topic is not None:
            found.append(history_follower(self.spark, home, table))
        return found


def _begun(
    name: str,
    streams: Sequence[nodes.Source],
    python: bool,
    hook: BatchHook,
    start: Callable[[], StreamingQuery],
) -> StreamingQuery:
    """Starts a query, with restarts where a failure of it may pass."""
    kafka = any(stream.connector.kafka is not None for stream in streams)
    passing = [*([BROKERS_AWAY] if kafka else []), *([SLOW_PYTHON] if python else [])]
    if not passing:
        return start()
    return cast("StreamingQuery", RestartingQuery(start, name, hook, *passing))


def _settings(spec: AppSpec, compiled: Compiled, partitions: int) -> dict[str, str]:
    settings = {
        "spark.sql.shuffle.partitions": str(partitions),
        # In processing time nothing is due without rows, but Spark would run empty batches forever.
        "spark.sql.streaming.noDataMicroBatches.enabled": str(compiled.event_time).lower(),
    }
    if spec.snapshot_every is not None:
        settings["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = str(spec.snapshot_every)
    return settings


def _query(
    spark: SparkSession,
    name: str,
    frame: DataFrame,
    hook: BatchHook,
    settings: Mapping[str, str],
    every_ms: int | None,
) -> StreamingQuery:
    writer = (
        frame.writeStream.foreachBatch(hook)
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", hook.home.checkpoint_url)
    )
    if every_ms:
        writer = writer.trigger(processingTime=f"{every_ms} milliseconds")
    with _STARTING:
        before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            return writer.start()
        finally:
            for key, old in before.items():
                spark.conf.unset(key) if old is None else spark.conf.set(key, old)
