"""Lets time pass for tables whose streams are silent.

Spark's watermark moves with rows alone. Once a table has heard nothing for its `idle`, a row that has nothing
but a time is put where the table reads: the clock's time less `idle`, so that event time goes on from where
it stopped, at the pace of the clock.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.home import TableHome, replace_file

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from keyfold.engine.batch import BatchHook

_LOOK_SECONDS: Final = 0.5
# A batch that runs again after a crash reads its files again. There is at most one for a batch.
_KEPT_FILES: Final = 100


class Idle:
    """Watches the tables that were declared with `idle`."""

    def __init__(self, queries: Mapping[str, StreamingQuery], hooks: Mapping[str, BatchHook]) -> None:
        self._tables = [
            Silence(queries[name], hook) for name, hook in hooks.items() if hook.spec.idle_ms is not None
        ]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-idle", daemon=True)
        if self._tables:
            self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._over.set()
        if self._tables:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            for table in self._tables:
                with suppress(Exception):  # a query on its way down; what failed is said by whoever waits
                    table.look()


class Silence:
    """How long one table has heard nothing."""

    def __init__(self, query: StreamingQuery, hook: BatchHook) -> None:
        assert hook.spec.idle_ms is not None
        self._query, self._hook = query, hook
        self._idle = hook.spec.idle_ms / 1000
        self._since = time.monotonic()
        self._batch, self._report = -1, ""
        # A stream that never spoke isn't silent: there is nothing to close, and its first rows may be old.
        self._spoken = hook.home.begun() is not None
        self._moved: int | None = -1

    def look(self) -> None:
        """Moves time if there has been silence for long enough."""
        heard = self._heard()
        if heard or not self._hook.idle.is_set():
            self._since = time.monotonic()
            self._spoken = self._spoken or heard
        elif self._spoken and time.monotonic() - self._since >= self._idle and self._taken():
            self._since = time.monotonic()
            self._moved = self._hook.home.committed()
            move(self._hook.home, time.time() - self._idle)

    def _taken(self) -> bool:
        """Whether the query runs and has had a batch since time was last moved."""
        return self._query.isActive and self._moved != self._hook.home.committed()

    def _heard(self) -> bool:
        last = self._query._jsq.lastProgress()
        if last is None or last.timestamp() == self._report:
            return False
        self._report = last.timestamp()
        # While it waits, Spark reports the batch to come, without rows.
        reports = [json.loads(report.json()) for report in self._query._jsq.recentProgress()]
        spoke = [r["batchId"] for r in reports if _rows(r, self._hook.home.control)]
        before, self._batch = self._batch, max(spoke, default=-1)
        return self._batch > before


def _rows(report: Mapping[str, Any], control: Path) -> int:
    """How many rows of a batch came from the table's streams."""
    return sum(s["numInputRows"] for s in report["sources"] if str(control) not in s["description"])


def move(home: TableHome, to: float) -> None:
    """Puts down a row that moves the table's event time to a time."""
    line = json.dumps({"time_us": round(to * 1_000_000)}) + "\n"
    replace_file(home.control / f"{time.time_ns():020d}.json", line.encode())
    for old in sorted(home.control.glob("*.json"))[:-_KEPT_FILES]:
        old.unlink(missing_ok=True)
