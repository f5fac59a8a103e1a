"""The queries of an app and what follows their logs: started one by one, drained and stopped together."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.batch.hook import BatchHook
from keyfold.engine.followers.follower import Follower
from keyfold.engine.jvm import process
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.polling import wait_until
from keyfold.engine.savepoint import live
from keyfold.engine.status.failures import Failures
from keyfold.engine.status.query_metrics import reported_batch
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import HomeLocked, JavaEnded, QueryFailed
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STOP_SECONDS: Final = 600.0


class RunningApp:
    """The queries of an app, in the order of the declaration: streams that have a log, then tables.

    Threads of the app may keep it, but not the handle: Python would free a stopped app, and what it has in
    Java's memory, only when its collector comes to it.
    """

    def __init__(
        self, shared: SharedStreams, spark: SparkSession, home: AppHome, lease: Lease, store: ViewStore
    ) -> None:
        self.shared, self.spec, self.spark, self.home = shared, shared.spec, spark, home
        self.lease, self.store = lease, store
        self.queries: dict[str, StreamingQuery] = {}
        self.hooks: dict[str, BatchHook] = {}
        self.followers: list[Follower] = []
        self.failures = Failures(self.spec.name, home, self.queries, self.hooks, self.followers)

    def drain(self) -> None:
        """Processes all input that is available now, then returns."""
        # What is read comes before who reads it.
        for name, query in self.queries.items():
            try:
                self.hooks[name].drain(query)
            except Exception:
                self.failures.raise_first()
                if query.isActive:
                    raise
                raise QueryFailed("the query was stopped", app=self.spec.name, table=name) from None
        for follower in self.followers:
            try:
                follower.wait_for(sys.maxsize)
            except Exception:
                self.failures.raise_first()
                raise

    def failed_names(self) -> list[str]:
        """The names of the streams and tables whose query has failed."""
        return [name for name, query in self.queries.items() if _has_failed(query)]

    def savepoint(self, name: str, tables: Sequence[str] = (), why: str | None = None) -> dict[str, Any]:
        """Makes a savepoint between batches; returns its name, batches and size."""
        found = live.create(self.spark, self.home, self.hooks, self.store, name, tables, why)
        return {
            "name": found.name,
            "tables": {name: table.batch for name, table in found.tables.items()},
            "files": len(found.files),
            "bytes": found.size,
        }

    def stop(self, seconds: float) -> None:
        """Waits that long for running batches to finish, then stops every query and what follows its log."""
        for hook in self.hooks.values():
            hook.stopping.set()
        for name, query in self.queries.items():
            if not self.failures.java_ended():
                with suppress(JavaEnded), process.reporting_java_end(self.spec.name):
                    _stop(query, self.hooks[name], seconds)
        for follower in self.followers:
            follower.close(seconds)

    def close(self) -> None:
        """Closes the views and releases the home."""
        self.store.close()
        self.lease.release()
        self.failures.stopped = True


def _has_failed(query: StreamingQuery) -> bool:
    try:
        return not query.isActive and query.exception() is not None
    except Exception:  # its JVM has ended
        return True


def _stop(query: StreamingQuery, hook: BatchHook, seconds: float) -> None:
    # A failed batch in real-time mode has not notified its hook.
    wait_until(lambda: hook.idle.is_set() or not query.isActive, seconds)
    wait_until(
        lambda: not query.isActive or hook.last is None or hook.last == hook.home.committed_batch(), seconds
    )
    last = hook.last
    if query.isActive and last is not None:
        # Spark reports a batch a moment after its commit, and not at all once the query is stopped.
        wait_until(lambda: not query.isActive or reported_batch(query) >= last, min(seconds, 5.0))
    query.stop()
    with suppress(HomeLocked):
        hook.settle()
