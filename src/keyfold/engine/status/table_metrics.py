"""The metrics of one running table, from Spark's progress reports and the table's home."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.batch.durations import Durations
from keyfold.engine.batch.hook import TableHook
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.status.backlog import Backlog
from keyfold.engine.status.message_metrics import message_metrics
from keyfold.engine.status.query_metrics import QueryMonitor
from keyfold.errors import QueryError
from keyfold.plan.nodes import Transform
from keyfold.plan.tree import walk
from keyfold.read.metrics import TableStatus, Work
from keyfold.views.contract import Position, ViewStore

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Counting keys reads the whole view: this share of the time may be spent on it.
COUNTING_SHARE: Final = 0.02


class TableMonitor(QueryMonitor):
    """Samples the metrics of one table."""

    def __init__(
        self,
        query: StreamingQuery,
        hook: TableHook,
        store: ViewStore,
        backlog: Backlog,
        before: Work | None,
    ) -> None:
        # A transform reads its input twice: once for good rows, once for side outputs.
        reads = 2 ** sum(isinstance(node, Transform) for node in walk(hook.spec.input))
        super().__init__(query, hook, backlog, before, reads)
        self._store, self._name = store, hook.spec.name
        self._position: Position | None = None
        self._keys: int | None = None
        self._keys_at: datetime | None = None
        self._count_after = 0.0
        self._latency: float | None = None

    def sample(self, *, count: bool = False) -> TableStatus:
        """The metrics now; `count` counts keys however long that takes."""
        self._take_progress()
        position = self._read_position()
        watermark = position.watermark if position else None
        durations = self._progress.get("durationMs") or {}
        return TableStatus(
            running=self._query.isActive,
            batch=position.batch if position else self._hook.last,
            at=position.at if position else None,
            rows=self._total,
            rows_per_second=self._speed(),
            batch_ms=durations.get("triggerExecution"),
            keys=self._count_keys(count),
            keys_at=self._keys_at,
            state_bytes=_state_bytes(self._progress),
            watermark=watermark,
            lag_seconds=(datetime.now(UTC) - watermark).total_seconds() if watermark else None,
            **self._work(),
            **message_metrics(self._last, self._hook.clocks),
            late=self._hook.counts["late"],
            rejected=self._hook.counts["rejected"],
            rejecting=self._rejecting,
            all_rejected=self._all_rejected(),
            duplicates=self._hook.counts["duplicate"],
            dropped_partials=self._hook.counts["dropped_partial"],
            latency_seconds=self._latency,
            all_runs=self._work_of_all_runs(),
        )

    def _view_took(self) -> Durations | None:
        return next((one.took for one in self._hook.followers if isinstance(one, ViewFollower)), None)

    def _batch_done(self, report: dict[str, Any]) -> None:
        if not report["numInputRows"]:
            return
        for manifest in [one for one in self._hook.run.newest if one.batch == report["batchId"]]:
            newest = _newest_row(report, manifest)
            self._latency = None if newest is None else (manifest.at - newest).total_seconds()

    def _read_position(self) -> Position | None:
        # What a store that can't be reached says last still holds: the view waits for it.
        with suppress(QueryError):
            self._position = self._store.position(self._name)
        return self._position

    def _count_keys(self, count: bool) -> int | None:
        if count or time.monotonic() >= self._count_after:
            begun, at = time.monotonic(), datetime.now(UTC)
            with suppress(QueryError):
                self._keys = self._store.count(self._name)
                self._keys_at = at
            took = time.monotonic() - begun
            self._count_after = begun + took / COUNTING_SHARE
        return self._keys


def _newest_row(report: Mapping[str, Any], manifest: Manifest) -> datetime | None:
    """The newest event time that a batch has read; of topics, that was read until then."""
    # A time in a year that Python lacks says nothing of how late the batch was.
    with suppress(ValueError, OverflowError):
        if (newest := (report.get("eventTime") or {}).get("max")) is not None:
            return datetime.fromisoformat(newest)
        times = [ms for partitions in manifest.times.values() for ms in partitions.values()]
        return datetime.fromtimestamp(max(times) / 1000, UTC) if times else None
    return None


def _state_bytes(progress: Mapping[str, Any]) -> int | None:
    """The size of the state in RocksDB, on disk and in memory."""
    operators = progress.get("stateOperators") or []
    if not operators:
        return None
    on_disk = sum(op.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for op in operators)
    return int(on_disk + sum(op.get("memoryUsedBytes", 0) for op in operators))
