"""How a running app is: figures per table, for the terminal, `handle.status()` and other processes.

A thread samples Spark's progress reports and writes what it sees to `status.json` in the app's home, so that
`keyfold status` can tell from any process, without a JVM.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.status.failures import document
from keyfold.engine.status.table_metrics import TableMonitor
from keyfold.engine.storage.layout import AppHome, replace_file
from keyfold.errors import RunError
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


SAMPLE_SECONDS: Final = 1.0


class Monitor:
    """The figures of an app, and the thread that keeps them."""

    def __init__(
        self,
        app: str,
        home: AppHome,
        failures: Callable[[], list[dict[str, Any]]],
        lookups: Callable[[], dict[str, dict[str, Any]]],
    ) -> None:
        self._app, self._home, self._failures, self._lookups = app, home, failures, lookups
        self._tables: dict[str, TableMonitor] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-status", daemon=True)
        self._last: dict[str, Any] | None = None
        self._started = datetime.now(UTC)

    def watch(
        self, queries: Mapping[str, StreamingQuery], hooks: Mapping[str, Any], store: ViewStore
    ) -> None:
        """Begins to watch the queries."""
        self._tables = {name: TableMonitor(query, hooks[name], store) for name, query in queries.items()}
        self._thread.start()

    def sample(self, *, count: bool = False) -> dict[str, Any]:
        """The figures now; after the end the last ones."""
        with self._lock:
            if self._over.is_set() and self._last is not None:
                return self._last
            failures = self._failures()
            try:
                found = self._figures(count)
            except Exception:
                # A JVM that has ended tells no more: the last figures stand, with the time they are of.
                if self._last is None or not (failures := self._failures()):
                    raise
                found = _ended(self._last)
            self._last = {**found, "failures": failures}
            return self._last

    def _figures(self, count: bool) -> dict[str, Any]:
        return {
            "app": self._app,
            "home": str(self._home.path),
            "pid": os.getpid(),
            "started": self._started,
            "at": datetime.now(UTC),
            "tables": {name: table.sample(count=count) for name, table in self._tables.items()},
            "lookups": self._lookups(),
        }

    def close(self) -> None:
        """Takes the last figures and ends the thread."""
        if not self._tables or self._over.is_set():
            return
        with suppress(Exception):  # what can't be asked any more stands as it was
            self.sample(count=True)
        with self._lock:
            self._over.set()
            self._last = self._last and _ended(self._last)
        self._thread.join()
        self._write()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            with suppress(Exception):  # a query on its way down; what failed is said by whoever waits
                self.sample()
                self._write()

    def _write(self) -> None:
        if self._last is not None:
            with suppress(OSError):  # a full disk is said by the query that it stops
                write_status(self._home, self._last)


def _ended(status: dict[str, Any]) -> dict[str, Any]:
    tables = {name: {**table, "running": False} for name, table in status["tables"].items()}
    return {**status, "tables": tables}


def note_failure(home: AppHome, error: RunError) -> None:
    """Adds what ended a start to the figures that the run before it left."""
    try:
        left = dict(json.loads(home.status.read_text("utf-8")))
    except (OSError, ValueError):
        left = {"app": home.path.name, "tables": {}}
    now = datetime.now(UTC)
    with suppress(OSError):
        write_status(home, {**_ended(left), "started": now, "failures": [document(error, now)]})


def write_status(home: AppHome, status: Mapping[str, Any]) -> None:
    """For readers in other processes."""
    text = json.dumps(status, default=lambda value: value.isoformat())
    replace_file(home.status, text.encode(), durable=False)
