"""How a running app is: figures per table, for the terminal, `handle.status()` and other processes.

A thread samples Spark's progress reports and writes what it sees to `status.json` in the app's home, so that
`keyfold status` can tell from any process, without a JVM.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import aside
from keyfold.engine.backlog import Backlog
from keyfold.engine.home import AppHome
from keyfold.views.contract import ViewStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from keyfold.engine.batch import BatchHook

SAMPLE_SECONDS: Final = 1.0
# Rows per second are those of so many seconds.
SPAN_SECONDS: Final = 10.0
# Counting keys reads the whole view: at most so much of the time is spent on it.
COUNTING_SHARE: Final = 0.02


class TableMonitor:
    """The figures of one table."""

    def __init__(self, query: StreamingQuery, hook: BatchHook, store: ViewStore) -> None:
        self._query, self._hook, self._store = query, hook, store
        self._name = hook.spec.name
        self._rows: dict[int, int] = {}
        self._total = 0
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._progress: dict[str, Any] = {}
        self._keys: int | None = None
        self._count_after = 0.0
        self._backlog = Backlog(hook.spec, hook.home)

    def sample(self, *, count: bool = False) -> dict[str, Any]:
        """The figures now; `count` counts keys however long that takes."""
        self._take_progress()
        position = self._store.position(self._name)
        watermark = position.watermark if position else None
        durations = self._progress.get("durationMs") or {}
        return {
            "running": self._query.isActive,
            "batch": position.batch if position else self._hook.last,
            "at": position.at if position else None,
            "rows": self._total,
            "rows_per_second": self._speed(),
            "batch_ms": durations.get("triggerExecution"),
            "keys": self._counted(count),
            "state_bytes": _state_bytes(self._progress),
            "watermark": watermark,
            "lag_seconds": (datetime.now(UTC) - watermark).total_seconds() if watermark else None,
            **self._work(),
            "late": sum(aside.counts(self._hook.home.late).values()),
            "rejected": sum(self._hook.rejected.values()),
        }

    def _take_progress(self) -> None:
        last = self._query._jsq.lastProgress()
        if last is None:
            return
        newest = json.loads(last.json())
        reports = [newest]
        if newest["batchId"] > max(self._rows, default=-1) + 1:
            reports = [json.loads(report.json()) for report in self._query._jsq.recentProgress()]
        for report in reports:
            self._take(report)

    def _take(self, report: dict[str, Any]) -> None:
        # A batch may be reported more than once, at first as waiting for rows.
        batch, rows = report["batchId"], report["numInputRows"]
        self._total += max(0, rows - self._rows.get(batch, 0))
        self._rows[batch] = max(rows, self._rows.get(batch, 0))
        if rows or not self._progress:
            self._progress = report
        while len(self._rows) > 100:
            del self._rows[min(self._rows)]

    def _speed(self) -> float:
        now = time.monotonic()
        self._seen.append((now, self._total))
        while len(self._seen) > 2 and now - self._seen[1][0] > SPAN_SECONDS:
            self._seen.popleft()
        begun, rows = self._seen[0]
        return (self._total - rows) / max(now - begun, 0.001)

    def _work(self) -> dict[str, Any]:
        """How much of the batch under way is done, and how many files are left to read."""
        done = self._tasks() if not self._hook.idle.is_set() else None
        files = self._backlog.files()
        if files is None:
            return {"batch_done": done, "files_left": None, "done": done}
        before, now, there = files
        read = before + now * (1 if self._hook.idle.is_set() else done or 0)
        return {
            "batch_done": done,
            "files_left": there - before - now,
            "done": read / there if there else None,
        }

    def _tasks(self) -> float | None:
        """The share of tasks that have ended in the jobs of the batch under way."""
        tracker = self._query._jsq.sparkSession().sparkContext().statusTracker()
        stages = [
            tracker.getStageInfo(stage)
            # Sliced in Java: each element that Python takes is a call.
            for job in list(tracker.getJobIdsForGroup(str(self._query.runId))[:3])
            if (info := tracker.getJobInfo(job)).isDefined() and info.get().status().toString() == "RUNNING"
            for stage in info.get().stageIds()
        ]
        known = [stage.get() for stage in stages if stage.isDefined()]
        tasks = sum(stage.numTasks() for stage in known)
        return sum(stage.numCompletedTasks() for stage in known) / tasks if tasks else None

    def _counted(self, count: bool) -> int | None:
        if count or time.monotonic() >= self._count_after:
            begun = time.monotonic()
            self._keys = self._store.count(self._name)
            took = time.monotonic() - begun
            self._count_after = begun + took / COUNTING_SHARE
        return self._keys


def _state_bytes(progress: Mapping[str, Any]) -> int | None:
    """What RocksDB holds on disk and in memory."""
    operators = progress.get("stateOperators") or []
    if not operators:
        return None
    on_disk = sum(op.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for op in operators)
    return int(on_disk + sum(op.get("memoryUsedBytes", 0) for op in operators))


class Monitor:
    """The figures of an app, and the thread that keeps them."""

    def __init__(self, app: str, home: AppHome) -> None:
        self._app, self._home = app, home
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
            tables = {name: table.sample(count=count) for name, table in self._tables.items()}
            self._last = {
                "app": self._app,
                "home": str(self._home.path),
                "pid": os.getpid(),
                "started": self._started,
                "tables": tables,
            }
            return self._last

    def close(self) -> None:
        """Takes the last figures and ends the thread."""
        if not self._tables or self._over.is_set():
            return
        with suppress(Exception):  # a JVM that has died tells no more; the last sample stands
            self.sample(count=True)
        with self._lock:
            self._over.set()
            if self._last is not None:
                tables = {name: {**table, "running": False} for name, table in self._last["tables"].items()}
                self._last = {**self._last, "tables": tables}
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


def write_status(home: AppHome, status: Mapping[str, Any]) -> None:
    """For readers in other processes; not synced, since it says nothing that matters after a power cut."""
    aside = home.status.with_name(f".{home.status.name}.{os.getpid()}")
    aside.write_text(json.dumps(status, default=lambda value: value.isoformat()), "utf-8")
    os.replace(aside, home.status)
