"""A running app: read its tables, see how it is, stop it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from keyfold.engine.batch.hook import BatchHook, TableHook
from keyfold.engine.followers.follower import Follower
from keyfold.engine.jvm import process
from keyfold.engine.limits import batch_limit
from keyfold.engine.live_table import LiveTable
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.polling import wait_until
from keyfold.engine.savepoint import live
from keyfold.engine.savepoint.requests import Requests
from keyfold.engine.sources.connectors import never_ends
from keyfold.engine.sources.idle_watermark import IdleTable, IdleWatermarks
from keyfold.engine.status.failures import Failures
from keyfold.engine.status.monitor import Monitor
from keyfold.engine.status.query_metrics import reported
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import BadOption, HomeLocked, JavaEnded, QueryError, QueryFailed, choice, did_you_mean
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec
from keyfold.read.app import AppReader
from keyfold.read.names import Names
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Handle:
    """A running app: read its tables, see how it is, stop it."""

    def __init__(
        self,
        shared: SharedStreams,
        spark: SparkSession,
        home: AppHome,
        lease: Lease,
        store: ViewStore,
        lookups: Lookups,
        feeds: Collection[str] = (),
    ) -> None:
        spec = shared.spec
        self.spec, self.spark, self.home, self.store = spec, spark, home, store
        self.queries: dict[str, StreamingQuery] = {}
        self.hooks: dict[str, BatchHook] = {}
        self.followers: list[Follower] = []
        self.shared, self.feeds = shared, feeds
        self._lookups = lookups
        self._reader = AppReader(home, _names(spec))
        self._lease: Lease | None = lease
        self._failures = Failures(spec.name, home, self.queries, self.hooks, self.followers)
        # What the handle keeps must not keep the handle: Python would free a stopped app, and what it has in
        # Java's memory, only when its collector comes to it.
        limits = partial(_batch_limits, spec, feeds, spark)
        self._monitor = Monitor(spec.name, home, self._failures.all, lookups.status, limits)
        self._idle: IdleWatermarks | None = None
        self._requests: Requests | None = None

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        failed = [] if self._lease is None else [n for n, q in self.queries.items() if _failed(q)]
        state = "stopped" if self._lease is None else "failed" if failed else "running"
        tables = ", ".join(f"{t.name} (failed)" if t.name in failed else t.name for t in self.spec.tables)
        return f"<app {self.spec.name}, {state}: {tables}; {self.home.shown}>"

    def table(self, name: str) -> LiveTable:
        """The read side of a table."""
        names = [t.name for t in self.spec.tables]
        if name not in names:
            hint = did_you_mean(name, names, choice(names))
            raise QueryError(
                f"no table {name} in app {self.spec.name}", reason="not_found", given=name, hint=hint
            )
        followers = [f for f in self.followers if f.table == name]
        return LiveTable(self.store, name, self.spark, followers, self.home.read_plan)

    def rejected(self, name: str) -> list[dict[str, Any]]:
        """Rows of a stream or table that could not be used, with reason and raw text."""
        return [row.document() for row in self._reader.rejected(name)]

    def late(self, table: str) -> list[dict[str, Any]]:
        """Late rows of a table, which arrived after their windows closed, with these windows and raw text."""
        return [row.document() for row in self._reader.late(table)]

    def duplicates(self, table: str) -> list[dict[str, Any]]:
        """Duplicates that `distinct(..., record_duplicates=True)` recorded; the status counts them all."""
        return [row.document() for row in self._reader.duplicates(table)]

    def drain(self) -> None:
        """Processes all input that is available now, then returns."""
        self._refuse_endless()
        # Streams first, then tables in the order of the declaration: what is read comes before who reads it.
        for name, query in self.queries.items():
            try:
                self.hooks[name].drain(query)
            except Exception:
                self._failures.raise_first()
                if query.isActive:
                    raise
                raise QueryFailed("the query was stopped", app=self.spec.name, table=name) from None
        for follower in self.followers:
            try:
                follower.wait_for(sys.maxsize)
            except Exception:
                self._failures.raise_first()
                raise

    def _refuse_endless(self) -> None:
        for stream in self.spec.streams:
            if never_ends(stream.connector) and stream.name not in self.feeds:
                raise BadOption(
                    f"stream {stream.name} never ends, so it can't be drained",
                    where=stream.site,
                    given=f"kf.{stream.connector.kind}(...)",
                    hint="run it for some time instead: keyfold run APP.py --for 30s, or handle.wait(30)",
                )

    def wait(self, seconds: float | None = None, stopping: threading.Event | None = None) -> None:
        """Returns after that many seconds, or when `stopping` is set.

        Raises `QueryFailed` when a query fails, and `JavaEnded` when the JVM ends.
        """
        stopping = stopping or threading.Event()

        def over() -> bool:
            self._failures.raise_first()
            done = stopping.is_set() or self._failures.stopped
            return done or not any(q.isActive for q in self.queries.values())

        with process.reporting_java_end(self.spec.name):
            wait_until(over, float("inf") if seconds is None else seconds, pause=0.1)

    def _started(self) -> None:
        """Starts the threads that accompany running queries."""
        self._monitor.watch(self.queries, self.hooks, self.store, self.shared)
        self._idle = IdleWatermarks(
            IdleTable(hook.spec, hook.home, self.queries[name], hook.idle)
            for name, hook in self.hooks.items()
            if isinstance(hook, TableHook) and hook.spec.idle_ms is not None
        )
        self._lookups.watch()
        self._requests = Requests(self.home.local / "requests", self.savepoint)

    def refresh(self, lookup: str) -> dict[str, Any]:
        """Reloads a lookup now, for the next batches; returns its status.

        If it can't be read, the last good version stays in use, and `error` has the reason.
        """
        return self._lookups.refresh(lookup).values()

    def savepoint(self, name: str, tables: Sequence[str] = (), why: str | None = None) -> dict[str, Any]:
        """Makes a savepoint of all tables, or some, while the app runs; returns its name, batches and size.

        Each table is captured between two batches; see `keyfold savepoint`.
        """
        found = live.create(self.spark, self.home, self.hooks, self.store, name, tables, why)
        return {
            "name": found.name,
            "tables": {name: table.batch for name, table in found.tables.items()},
            "files": len(found.files),
            "bytes": found.size,
        }

    def status(self, *, count: bool = False) -> dict[str, Any]:
        """The metrics of each table: batch, rows, throughput, keys, bytes of state, watermark, side outputs.

        And of each lookup: rows, when they were loaded, their version, the error of the last reload.
        `failures` has what stopped queries, and when; the metrics are then the last ones.

        With `count` keys are counted now, however long that takes; otherwise the number may be a while old.
        """
        return self._monitor.sample(count=count).values()

    def stop(self, seconds: float = 600.0) -> None:
        """Waits that long for running batches to finish, then stops every query and releases the home."""
        if self._idle is not None:
            self._idle.close()
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        self._lookups.close()
        for hook in self.hooks.values():
            hook.stopping.set()
        try:
            for name, query in self.queries.items():
                if not self._failures.java_ended():
                    with suppress(JavaEnded), process.reporting_java_end(self.spec.name):
                        _stop(query, self.hooks[name], seconds)
            for follower in self.followers:
                follower.close(seconds)
        finally:
            self._monitor.close()
            self.store.close()
            if self._lease is not None:
                self._lease.release()
                self._lease = None
            self._failures.stopped = True
        if self._failures.java_ended() and not self._failures.raised:
            self._failures.raise_first()


def _batch_limits(spec: AppSpec, feeds: Collection[str], spark: SparkSession) -> dict[str, dict[str, int]]:
    """How much of each stream of files a batch reads at most."""
    own = (stream for stream in spec.streams if stream.name not in feeds)
    found = ((stream.name, batch_limit(stream.connector, spark.conf)) for stream in own)
    return {name: limit for name, limit in found if limit is not None}


def _failed(query: StreamingQuery) -> bool:
    try:
        return not query.isActive and query.exception() is not None
    except Exception:  # its JVM has ended
        return True


def _stop(query: StreamingQuery, hook: BatchHook, seconds: float) -> None:
    # A failed batch in real-time mode has not notified its hook.
    wait_until(lambda: hook.idle.is_set() or not query.isActive, seconds)
    wait_until(lambda: not query.isActive or hook.last is None or hook.last == hook.home.committed(), seconds)
    last = hook.last
    if query.isActive and last is not None:
        # Spark reports a batch a moment after its commit, and not at all once the query is stopped.
        wait_until(lambda: not query.isActive or reported(query) >= last, min(seconds, 5.0))
    query.stop()
    with suppress(HomeLocked):
        hook.settle()


def _names(spec: AppSpec) -> Names:
    read = {table.name: [stream.name for stream in tree.sources(table.input)] for table in spec.tables}
    return Names(spec.name, read, [stream.name for stream in spec.streams])
