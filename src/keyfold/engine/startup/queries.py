"""Starts the queries of an app, each with its log, the followers of the log, and its retention."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from keyfold.engine import session
from keyfold.engine.batch.hook import BatchHook, Publishing, TableHook
from keyfold.engine.batch.realtime_hook import RealTimeHook
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.followers.follower import Follower
from keyfold.engine.followers.sink import sink_follower
from keyfold.engine.followers.tables_that_read import TablesThatRead
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log import readers, retention
from keyfold.engine.log.log_writer import LogWriter
from keyfold.engine.log.readers import Use
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.query_start import micro_batches, restarting, settings_of
from keyfold.engine.realtime import start as realtime
from keyfold.engine.recovery.history_topic import history_follower
from keyfold.engine.recovery.query_failure import of_table
from keyfold.engine.running import RunningApp
from keyfold.engine.startup.home import HeldHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.plan import tree
from keyfold.plan.nodes import ProcessSpec, TableSpec


class AppQueries:
    """Starts the queries of one app, one by one.

    `stored`: the plan of earlier starts. `partitions`: of each table's state. What runs is not kept here,
    since its hooks keep this object.
    """

    def __init__(
        self,
        held: HeldHome,
        shared: SharedStreams,
        stored: StoredApp,
        partitions: Mapping[str, int],
    ) -> None:
        self.spec, self.spark, self.home, self.lease = shared.spec, held.spark, held.home, held.lease
        self.settings, self.changelog = held.settings, held.options.changelog
        self.shared, self.stored, self.partitions = shared, stored, partitions

    def start(
        self, running: RunningApp, streams: Iterable[CompiledStream], tables: Iterable[Compiled]
    ) -> None:
        """Starts the queries of streams, then of tables, and adds each to what runs."""
        for stream in streams:
            self._start_stream(running, stream)
        for table in tables:
            self._start_table(running, table)

    def _start_stream(self, running: RunningApp, stream: CompiledStream) -> None:
        """Starts the query that records a stream in its log."""
        name, kernel = stream.spec.name, session.kernel(self.spark)
        home = self.home.stream_home(name)
        log = TableLog(home.log_files)
        writer = LogWriter(kernel, log, name, self.lease)
        writer.sweep()
        publishing = Publishing(
            writer,
            changes=True,
            followers=[TablesThatRead(kernel, home.log_url)],
            prune=lambda: self._prune(log, writer, stream.spec.history_ms, self.shared.uses_of(name)),
        )
        hook = BatchHook(name, home, publishing)
        running.hooks[name] = hook
        begin = partial(micro_batches, self.spark, stream.name, stream.rows, hook, {}, self.spec.every_ms)
        with of_table(self.spec.name, name, home):
            running.queries[name] = restarting(stream.name, [stream.spec], hook, begin)

    def _start_table(self, running: RunningApp, table: Compiled) -> None:
        """Starts the query of a table, and what follows its log."""
        name = table.spec.name
        home = self.home.table(name)
        home.sweep()
        log, kernel = TableLog(home.log_files), session.kernel(self.spark)
        writer = LogWriter(kernel, log, name, self.lease)
        writer.sweep()
        followers = self._followers(running, table, log)
        uses = readers.readers(self.spec, name)
        read = bool(followers or uses or self.changelog)
        publishing = Publishing(
            writer,
            changes=read or table.spec.history_ms is not None,
            followers=[*followers, *([TablesThatRead(kernel, home.log_url)] if uses else [])],
            lag=self.settings.view_lag,
            prune=lambda: self._prune_table(log, writer, table.spec, uses, followers),
            clocks=table.clocks,
        )
        kind = RealTimeHook if table.realtime else TableHook
        hook = kind(table.spec, home, table.view, publishing)
        running.hooks[name] = hook
        for follower in followers:
            running.followers.append(follower)
            follower.start()
        settings = settings_of(self.spec, table, self.partitions[name])
        with of_table(self.spec.name, name, home):
            if isinstance(hook, RealTimeHook):
                running.queries[name] = realtime.start(self.spark, self.spec, table, hook, settings)
                return
            realtime.forget_first_batch(self.stored, name, home)
            every, read_by = self._every(table.spec), tree.sources(table.spec.input)
            begin = partial(micro_batches, self.spark, table.name, table.changes, hook, settings, every)
            python = isinstance(table.spec.body, ProcessSpec)
            running.queries[name] = restarting(table.name, read_by, hook, begin, python=python)

    def _every(self, table: TableSpec) -> int | None:
        """The time between batches of a table; one that reads logs of streams alone keeps their pace."""
        direct = {s.name for s in tree.queried_sources(self.spec, table)} - set(self.shared.of(table))
        return self.spec.every_ms if direct or tree.reads(table.input) else None

    def _prune_table(
        self,
        log: TableLog,
        writer: LogWriter,
        table: TableSpec,
        uses: Sequence[Use],
        followers: Sequence[Follower],
    ) -> None:
        if not self.changelog:
            self._prune(log, writer, table.history_ms, uses, followers)

    def _prune(
        self,
        log: TableLog,
        writer: LogWriter,
        history_ms: int | None,
        uses: Sequence[Use],
        followers: Sequence[Follower] = (),
    ) -> None:
        """Removes the batches of a log that all followers have read and whose history has passed."""
        positions = [follower.position for follower in followers]
        positions += [readers.kept_after(self.home, use) for use in uses]
        read_upto = min(positions, default=sys.maxsize)
        history = None if history_ms is None else timedelta(milliseconds=history_ms)
        retention.prune(log, read_upto, history, writer.newest)

    def _followers(self, running: RunningApp, table: Compiled, log: TableLog) -> list[Follower]:
        """The view and the sinks of a table."""
        found: list[Follower] = []
        if self.settings.views != "none":
            found.append(ViewFollower(log, running.store, table.view))
        newest = log.newest()
        for name, connector in () if table.realtime else table.spec.sinks:
            home, begin = self.home.table(table.spec.name), -1 if newest is None else newest
            found.append(sink_follower(self.spark, home, table, name, connector, begin))
        if table.spec.history_topic is not None:
            found.append(history_follower(self.spark, table, self.home, running.store))
        return found
