"""A running app: read its tables, see how it is, stop it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from keyfold.engine.jvm import process
from keyfold.engine.live_table import LiveTable
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.polling import wait_until
from keyfold.engine.running import STOP_SECONDS, RunningApp
from keyfold.engine.sources.connectors import never_ends
from keyfold.engine.status.monitor import Monitor
from keyfold.errors import BadOption, QueryError, choice, did_you_mean
from keyfold.plan import tree
from keyfold.plan.nodes import AppSpec
from keyfold.read.app import AppReader
from keyfold.read.names import Names


class Companion(Protocol):
    """A thread that accompanies running queries, until they are stopped."""

    def close(self) -> None:
        """Ends it; a second time does nothing."""


class Handle:
    """A running app: read its tables, see how it is, stop it."""

    def __init__(
        self,
        running: RunningApp,
        monitor: Monitor,
        lookups: Lookups,
        feeds: Collection[str] = (),
        companions: Sequence[Companion] = (),
    ) -> None:
        self.spec, self.shared = running.spec, running.shared
        self.spark, self.home, self.store = running.spark, running.home, running.store
        self.queries, self.hooks, self.followers = running.queries, running.hooks, running.followers
        self.feeds = feeds
        self._running, self._failures = running, running.failures
        self._monitor, self._lookups, self._companions = monitor, lookups, companions
        self._reader = AppReader(running.home, _names(running.spec))

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        failed = [] if self._failures.stopped else self._running.failed_names()
        state = "stopped" if self._failures.stopped else "failed" if failed else "running"
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
        self._running.drain()

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

    def refresh(self, lookup: str) -> dict[str, Any]:
        """Reloads a lookup now, for the next batches; returns its status.

        If it can't be read, the last good version stays in use, and `error` has the reason.
        """
        return self._lookups.refresh(lookup).values()

    def savepoint(self, name: str, tables: Sequence[str] = (), why: str | None = None) -> dict[str, Any]:
        """Makes a savepoint of all tables, or some, while the app runs; returns its name, batches and size.

        Each table is captured between two batches; see `keyfold savepoint`.
        """
        return self._running.savepoint(name, tables, why)

    def status(self, *, count: bool = False) -> dict[str, Any]:
        """The metrics of each table: batch, rows, throughput, keys, bytes of state, watermark, side outputs.

        And of each lookup: rows, when they were loaded, their version, the error of the last reload.
        `failures` has what stopped queries, and when; the metrics are then the last ones.

        With `count` keys are counted now, however long that takes; otherwise the number may be a while old.
        """
        return self._monitor.sample(count=count).values()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Waits that long for running batches to finish, then stops every query and releases the home."""
        for companion in self._companions:
            companion.close()
        try:
            self._running.stop(seconds)
        finally:
            self._monitor.close()
            self._running.close()
        if self._failures.java_ended() and not self._failures.raised:
            self._failures.raise_first()


def _names(spec: AppSpec) -> Names:
    read = {table.name: [stream.name for stream in tree.sources(table.input)] for table in spec.tables}
    return Names(spec.name, read, [stream.name for stream in spec.streams])
