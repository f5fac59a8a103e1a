"""The metrics of one running query, of a table or of a stream with a log, from Spark's progress reports."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.batch.durations import Durations
from keyfold.engine.batch.hook import BatchHook
from keyfold.engine.status.backlog import Backlog
from keyfold.engine.status.batch_times import of_report, with_waits
from keyfold.read.batch_times import MOST, BatchTime
from keyfold.read.metrics import Rejecting, Work

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# The throughput is an average over this time.
SPAN_SECONDS: Final = 10.0

# A batch is reported if this share of its rows was rejected for one reason; if they are few, all of them.
FEW: Final = 10
NEARLY_ALL: Final = 0.9


# The parts of a batch, by the names that Spark has for them.
PHASES: Final = {
    "latestOffset": "offsets",
    "getBatch": "offsets",
    "queryPlanning": "plan",
    "addBatch": "fold",
    "walCommit": "commit",
    "commitOffsets": "commit",
    "commitBatch": "commit",
}


class QueryMonitor:
    """Samples the metrics that every query has.

    `before`: the work of earlier runs. `reads`: how often the query reads each row.
    """

    def __init__(
        self, query: StreamingQuery, hook: BatchHook, backlog: Backlog, before: Work | None, reads: int = 1
    ) -> None:
        self._query, self._hook, self._backlog, self._reads = query, hook, backlog, reads
        self._before = before or Work()
        self._phases: Counter[str] = Counter()
        self._timed = -1
        self._rows: dict[int, int] = {}
        self._total = 0
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._progress: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._rejecting: Rejecting | None = None
        self._times: dict[int, BatchTime] = {}

    def batch_times(self) -> list[BatchTime]:
        """Where the time of the newest batches of this run went, oldest first."""
        waited, view = self._hook.waited, self._view_took()
        return [
            with_waits(one, waited.of(n), None if view is None else view.of(n))
            for n, one in sorted(self._times.items())
        ]

    def _view_took(self) -> Durations | None:
        """How long the view took for the newest batches; None of what has no view."""
        return None

    def _take_progress(self) -> None:
        last = self._query._jsq.lastProgress()
        if last is None:
            return
        newest = self._last = json.loads(last.json())
        reports = [newest]
        # The batch before may have been seen while it waited for rows, and not since.
        if newest["batchId"] > max(self._rows, default=-1):
            reports = [json.loads(report.json()) for report in self._query._jsq.recentProgress()]
        for report in reports:
            self._take(report)

    def _take(self, report: dict[str, Any]) -> None:
        # A batch may be reported several times, first while it waits for rows.
        batch, rows = report["batchId"], report["numInputRows"]
        self._total += max(0, rows - self._rows.get(batch, 0))
        self._rows[batch] = max(rows, self._rows.get(batch, 0))
        if rows or not self._progress:
            self._progress = report
        durations = report.get("durationMs") or {}
        if "addBatch" in durations:
            self._record_rejection(batch, self._rows[batch] / self._reads)
            if batch > self._timed:
                self._timed = batch
                took = phases(durations)
                self._phases.update(took)
                self._times[batch] = of_report(report, took)
                while len(self._times) > MOST:
                    del self._times[min(self._times)]
                self._batch_done(report)
        while len(self._rows) > 100:
            del self._rows[min(self._rows)]

    def _batch_done(self, report: dict[str, Any]) -> None:
        """Called once for each batch, with Spark's report of it."""

    def _work_of_all_runs(self) -> Work:
        """What the query has done until now, in this run and before it."""
        before, now = self._before, {phase: ms / 1000 for phase, ms in self._phases.items()}
        names = dict.fromkeys((*before.phases, *now))
        return Work(
            rows=before.rows + self._total // self._reads,
            seconds=round(before.seconds + sum(now.values()), 3),
            phases={name: round(before.phases.get(name, 0) + now.get(name, 0), 3) for name in names},
        )

    def _record_rejection(self, batch: int, rows: float) -> None:
        """Records a batch in which nearly all rows were rejected for one reason."""
        for found in list(self._hook.run.refusals):
            # A file whose only line was read as its header has no rows.
            share = min(1.0, found.most / max(rows, found.rejected))
            if found.batch == batch and share >= (NEARLY_ALL if found.most >= FEW else 1):
                reason = found.reason
                self._rejecting = Rejecting(batch=batch, rejected=found.most, share=share, reason=reason)

    def _all_rejected(self) -> bool:
        """Whether this run has read rows, and rejected every one of them."""
        run = self._hook.run
        return run.rejected > 0 and run.changes == 0 and run.rejected >= self._total / self._reads

    def _speed(self) -> float:
        now = time.monotonic()
        self._seen.append((now, self._total))
        while len(self._seen) > 2 and now - self._seen[1][0] > SPAN_SECONDS:
            self._seen.popleft()
        begun, rows = self._seen[0]
        return (self._total - rows) / max(now - begun, 0.001)

    def _work(self) -> dict[str, Any]:
        """The progress of the running batch, and how many files are left to read."""
        done = self._tasks() if not self._hook.idle.is_set() else None
        files = self._backlog.files()
        if files is None:
            return {"batch_done": done, "files_left": None, "done": done}
        before, now, there = files
        read = before + now * (1 if self._hook.idle.is_set() and not self._has_failed() else done or 0)
        return {
            "batch_done": done,
            "files_left": there - before - now,
            "done": read / there if there else None,
        }

    def _has_failed(self) -> bool:
        """Whether the running batch has failed."""
        return self._hook.error is not None or not self._query.isActive

    def _tasks(self) -> float | None:
        """The share of tasks that have ended in the jobs of the running batch."""
        tracker = self._query._jsq.sparkSession().sparkContext().statusTracker()
        stages = [
            tracker.getStageInfo(stage)
            # Sliced in the JVM: each element that Python takes is a call.
            for job in list(tracker.getJobIdsForGroup(str(self._query.runId))[:3])
            if (info := tracker.getJobInfo(job)).isDefined() and info.get().status().toString() == "RUNNING"
            for stage in info.get().stageIds()
        ]
        known = [stage.get() for stage in stages if stage.isDefined()]
        tasks = sum(stage.numTasks() for stage in known)
        return sum(stage.numCompletedTasks() for stage in known) / tasks if tasks else None


def phases(durations: Mapping[str, int]) -> dict[str, int]:
    """The milliseconds of the parts of a batch, by Spark's report, whose words say less."""
    found = Counter({"other": durations["triggerExecution"]})
    for name, ms in durations.items():
        if (phase := PHASES.get(name)) is not None:
            found[phase] += ms
            found["other"] -= ms
    # Spark rounds each by itself.
    return {phase: max(0, ms) for phase, ms in found.items()}


def reported_batch(query: StreamingQuery) -> int:
    """The newest batch that Spark has reported as done; while Spark waits, it reports the next one."""
    last = query._jsq.lastProgress()
    if last is None:
        return -1
    return int(last.batchId()) - (0 if last.durationMs().containsKey("addBatch") else 1)
