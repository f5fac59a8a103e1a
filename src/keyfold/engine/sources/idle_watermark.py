"""Lets time pass for tables whose streams are silent.

Spark's watermark moves with rows alone. Once a table has heard nothing from a stream for its `idle`, a row
that has nothing but a time is put where it reads: the clock's time less `idle`, so that event time goes on
from where it stopped, at the pace of the clock.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.storage.layout import TableHome, replace_file
from keyfold.plan import nodes

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from keyfold.engine.batch.hook import BatchHook

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
    """How long the streams of one table have said nothing, each for itself: one alone holds all back."""

    def __init__(self, query: StreamingQuery, hook: BatchHook) -> None:
        assert hook.spec.idle_ms is not None
        self._query, self._hook = query, hook
        self._idle = hook.spec.idle_ms / 1000
        self._since = {source.name: time.time() for source in nodes.sources(hook.spec.input)}
        self._moved: dict[str, int | None] = {}
        self._heard: dict[str, int] = {}
        self._report = ""
        # Streams that never spoke aren't silent: there is nothing to close, and their first rows may be old.
        self._spoken = hook.home.begun() is not None

    def look(self) -> None:
        """Moves the time of streams that have been silent for long enough."""
        until = self._listen()
        for stream, since in self._since.items():
            if self._spoken and until - since >= self._idle and self._taken(stream):
                self._since[stream] = until
                self._moved[stream] = self._hook.home.committed()
                move(self._hook.home.control / stream, until - self._idle)

    def _taken(self, stream: str) -> bool:
        """Whether the query runs and has had a batch since time was last moved."""
        never = stream not in self._moved
        return self._query.isActive and (never or self._moved[stream] != self._hook.home.committed())

    def _listen(self) -> float:
        """Takes in what Spark reports; returns up to when it is known who spoke.

        A batch that is under way may hold rows of any stream.
        """
        last = self._query._jsq.lastProgress()
        if last is not None and last.timestamp() != self._report:
            self._report = last.timestamp()
            for report in self._query._jsq.recentProgress():
                self._take(json.loads(report.json()))
        if self._hook.idle.is_set():
            return time.time()
        return datetime.fromisoformat(self._report).timestamp() if self._report else 0.0

    def _take(self, report: Mapping[str, Any]) -> None:
        for stream, rows in _rows(report, self._hook.home).items():
            # While it waits, Spark reports the batch to come, without rows.
            if rows and report["batchId"] > self._heard.get(stream, -1):
                self._heard[stream] = report["batchId"]
                self._since[stream] = time.time()
                self._spoken = True


def _rows(report: Mapping[str, Any], home: TableHome) -> dict[str, int]:
    """How many rows of a batch came from each stream: its source comes before the one that moves its time."""
    found, rows = {}, 0
    for source in report["sources"]:
        if f"{home.incoming}/" in source["description"]:
            continue
        _, beside, stream = source["description"].partition(f"{home.control}/")
        if beside:
            found[stream.rstrip("]")] = rows
        rows = 0 if beside else rows + source["numInputRows"]
    return found


def move(directory: Path, to: float) -> None:
    """Puts down a row that moves a stream's event time to a time."""
    line = json.dumps({"time_us": round(to * 1_000_000)}) + "\n"
    replace_file(directory / f"{time.time_ns():020d}.json", line.encode())
    for old in sorted(directory.glob("*.json"))[:-_KEPT_FILES]:
        old.unlink(missing_ok=True)
