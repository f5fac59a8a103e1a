"""The metrics of one stream that has a log, while its query runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyfold.engine.status.message_metrics import messages_left
from keyfold.engine.status.query_metrics import QueryMonitor
from keyfold.read.metrics import StreamStatus, Work

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from keyfold.engine.batch.hook import BatchHook
    from keyfold.engine.status.backlog import Backlog


class StreamMonitor(QueryMonitor):
    """Samples the metrics of one stream."""

    def __init__(self, query: StreamingQuery, hook: BatchHook, backlog: Backlog, before: Work | None) -> None:
        super().__init__(query, hook, backlog, before)
        self._first = hook.log.newest()

    def sample(self) -> StreamStatus:
        """The metrics now."""
        self._take_progress()
        durations = self._progress.get("durationMs") or {}
        return StreamStatus(
            running=self._query.isActive,
            batch=self._first if self._hook.last is None else self._hook.last,
            rows=self._total,
            rows_per_second=self._speed(),
            batch_ms=durations.get("triggerExecution"),
            **self._work(),
            **messages_left(self._last),
            recorded=self._hook.counts["change"],
            rejected=self._hook.counts["rejected"],
            rejecting=self._rejecting,
            all_rejected=self._all_rejected(),
            all_runs=self._work_of_all_runs(),
        )
