"""The status of a running app: metrics per table, for the terminal, `handle.status()` and other processes.

A thread samples Spark's progress reports and publishes the status as `status.json` in the app's home, where
`keyfold status` reads it from any process, without a JVM.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from keyfold.engine.batch.hook import BatchHook, TableHook
from keyfold.engine.log import readers
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.status.backlog import Backlog
from keyfold.engine.status.batch_times import BatchTimes
from keyfold.engine.status.failures import as_failure
from keyfold.engine.status.size_history import SizeHistory
from keyfold.engine.status.stream_metrics import StreamMonitor
from keyfold.engine.status.table_metrics import TableMonitor
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import RunError
from keyfold.plan import tree
from keyfold.read.metrics import (
    Failure,
    LookupStatus,
    RunStatus,
    StreamStatus,
    TableStatus,
    read_status,
)
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


SAMPLE_SECONDS: Final = 1.0


class Monitor:
    """The status of an app, and the thread that samples it."""

    def __init__(
        self,
        app: str,
        home: AppHome,
        failures: Callable[[], list[Failure]],
        lookups: Callable[[], dict[str, LookupStatus]],
        batch_limits: Callable[[], dict[str, dict[str, int]]],
    ) -> None:
        self._app, self._home, self._failures, self._lookups = app, home, failures, lookups
        self._batch_limits = batch_limits
        self._tables: dict[str, TableMonitor] = {}
        self._streams: dict[str, StreamMonitor] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-status", daemon=True)
        self._last: RunStatus | None = None
        self._started = datetime.now(UTC)
        self._sizes = SizeHistory(home)
        self._times = BatchTimes(home)

    def watch(
        self,
        queries: Mapping[str, StreamingQuery],
        hooks: Mapping[str, BatchHook],
        store: ViewStore,
        shared: SharedStreams,
    ) -> None:
        """Starts to sample the queries of tables, and of streams that have a log."""
        before = read_status(self._home)
        streams = {s.name: Backlog(hooks[s.name].home, [s]) for s in shared}
        self._streams = {
            name: StreamMonitor(
                queries[name], hooks[name], backlog, before.streams.get(name, StreamStatus()).all_runs
            )
            for name, backlog in streams.items()
        }
        for name, hook in hooks.items():
            if isinstance(hook, TableHook):
                read = shared.uses(hook.spec)
                recorded = [use.table for use in read]
                sources = [s for s in tree.sources(hook.spec.input) if s.name not in recorded]
                uses = readers.uses(hook.spec) + read
                upstream = [streams[stream] for stream in recorded]
                backlog = Backlog(hook.home, sources, uses, upstream)
                work = before.tables.get(name, TableStatus()).all_runs
                self._tables[name] = TableMonitor(queries[name], hook, store, backlog, work)
        self._thread.start()

    def sample(self, *, count: bool = False) -> RunStatus:
        """The status now; after `close` the last one. `count` counts keys however long that takes."""
        with self._lock:
            if self._closed.is_set() and self._last is not None:
                return self._last
            failures = self._failures()
            try:
                found = self._sample(count)
            except Exception:
                # The JVM has ended: the last metrics stand, with the time they were sampled at.
                if self._last is None or not (failures := self._failures()):
                    raise
                found = self._last.as_stopped()
            self._last = found.replace(failures=failures)
            return self._last

    def _sample(self, count: bool) -> RunStatus:
        return RunStatus(
            app=self._app,
            home=self._home.shown,
            pid=os.getpid(),
            started=self._started,
            at=datetime.now(UTC),
            streams={name: stream.sample() for name, stream in self._streams.items()},
            tables={name: table.sample(count=count) for name, table in self._tables.items()},
            lookups=self._lookups(),
            batch_limits=self._batch_limits(),
        )

    def close(self) -> None:
        """Samples a last time and ends the thread."""
        if not self._tables or self._closed.is_set():
            return
        with suppress(Exception):  # a value that can no longer be sampled stays the last one
            self.sample(count=True)
        with self._lock:
            self._closed.set()
            self._last = self._last and self._last.as_stopped()
        self._thread.join()
        self._write(last=True)

    def _watch(self) -> None:
        while not self._closed.wait(SAMPLE_SECONDS):
            with suppress(Exception):  # the query is stopping; its failures are reported elsewhere
                self.sample()
                self._write()

    def _write(self, *, last: bool = False) -> None:
        if self._last is not None:
            with suppress(OSError):  # the query that a full disk stops reports it
                self._home.write_status(self._last.document())
                self._sizes.add(self._last, last=last)
                queries = {**self._streams, **self._tables}
                self._times.add({name: query.batch_times() for name, query in queries.items()})


def record_failure(home: AppHome, error: RunError) -> None:
    """Adds what ended a start to the status that the last run left."""
    last, now = read_status(home).as_stopped(), datetime.now(UTC)
    last = last.replace(app=last.app or home.path.name, started=now, failures=[as_failure(error, now)])
    with suppress(OSError):
        home.write_status(last.document())
