"""Advances event time for tables whose streams are idle.

Spark's watermark advances with rows alone. Once a table has received nothing from a stream for its `idle`, a
row with nothing but a time is written to a directory that it reads: the clock's time less `idle`, so that
event time continues from where it stopped, at the pace of the clock.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import TableHome
from keyfold.plan import tree
from keyfold.plan.nodes import TableSpec

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS: Final = 0.5
# A batch that runs again after a crash reads its files again; each batch has at most one.
_KEPT_FILES: Final = 100
# How Spark describes a source of the kernel's that reads the log of a table; that of a stream counts as one.
_OF_TABLE: Final = re.compile(r"LogSource\[.*/tables/[^/]+/log\]")


class IdleWatermarks:
    """The thread that watches tables declared with `idle`."""

    def __init__(self, tables: Iterable[IdleTable]) -> None:
        self._tables = list(tables)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keyfold-idle", daemon=True)
        if self._tables:
            self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        if self._tables:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_POLL_SECONDS):
            for table in self._tables:
                with suppress(Exception):  # the query is stopping; its failures are reported elsewhere
                    table.poll()


class IdleTable:
    """How long each stream of one table has been idle; a single idle stream holds the watermark back."""

    def __init__(
        self, spec: TableSpec, home: TableHome, query: StreamingQuery, batch_done: threading.Event
    ) -> None:
        assert spec.idle_ms is not None
        self._home, self._query, self._batch_done = home, query, batch_done
        self._idle = spec.idle_ms / 1000
        self._idle_since = {source.name: time.time() for source in tree.sources(spec.input)}
        self._advanced_at: dict[str, int | None] = {}
        self._last_batch: dict[str, int] = {}
        self._report = ""
        # Before the first row there is nothing to close, and the first rows may be old.
        self._started = home.planned_batch() is not None

    def poll(self) -> None:
        """Advances the time of streams that have been idle for long enough."""
        until = self._observe()
        for stream, since in self._idle_since.items():
            if self._started and until - since >= self._idle and self._can_advance(stream):
                self._idle_since[stream] = until
                self._advanced_at[stream] = self._home.committed_batch()
                advance(self._home.control(stream), until - self._idle)

    def _can_advance(self, stream: str) -> bool:
        """Whether the query runs and has committed a batch since the stream's time was last advanced."""
        never = stream not in self._advanced_at
        return self._query.isActive and (never or self._advanced_at[stream] != self._home.committed_batch())

    def _observe(self) -> float:
        """Takes in Spark's progress reports; returns the time up to which they show which streams had rows.

        A batch that is running may contain rows of any stream.
        """
        last = self._query._jsq.lastProgress()
        if last is not None and last.timestamp() != self._report:
            self._report = last.timestamp()
            for report in self._query._jsq.recentProgress():
                self._take(json.loads(report.json()))
        if self._batch_done.is_set():
            return time.time()
        return datetime.fromisoformat(self._report).timestamp() if self._report else 0.0

    def _take(self, report: Mapping[str, Any]) -> None:
        for stream, rows in _rows(report, self._home).items():
            # While it waits, Spark reports the next batch, without rows.
            if rows and report["batchId"] > self._last_batch.get(stream, -1):
                self._last_batch[stream] = report["batchId"]
                self._idle_since[stream] = time.time()
                self._started = True


def _rows(report: Mapping[str, Any], home: TableHome) -> dict[str, int]:
    """How many rows of a batch came from each stream: its source precedes the one that advances its time."""
    found, rows = {}, 0
    for source in report["sources"]:
        if _OF_TABLE.fullmatch(source["description"]):
            continue
        _, control, stream = source["description"].partition(f"/tables/{home.path.name}/control/")
        if control:
            found[stream.rstrip("]")] = rows
        rows = 0 if control else rows + source["numInputRows"]
    return found


def advance(directory: Storage, to: float) -> None:
    """Writes a row that advances a stream's event time to a time."""
    line = json.dumps({"time_us": round(to * 1_000_000)}) + "\n"
    directory.put(f"{time.time_ns():020d}.json", line.encode())
    for old in [name for name in directory.list() if name.endswith(".json")][:-_KEPT_FILES]:
        directory.delete(old, durable=False)
