"""The work of a query over all runs, its phases and its latency, from Spark's progress reports."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold.engine.batch.hook import Run
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.status.query_metrics import QueryMonitor, phases
from keyfold.engine.status.table_metrics import TableMonitor
from keyfold.read.metrics import Work
from tests.log_files import publish

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DURATIONS = {
    "addBatch": 600,
    "commitOffsets": 9,
    "getBatch": 30,
    "latestOffset": 170,
    "queryPlanning": 40,
    "walCommit": 11,
    "triggerExecution": 1_000,
}


def report(batch: int, rows: int, *, done: bool = True, **others: Any) -> dict[str, Any]:
    durations = DURATIONS if done else {"latestOffset": 5, "triggerExecution": 7}
    return {
        "batchId": batch,
        "timestamp": "2026-01-01T12:00:00.000Z",
        "numInputRows": rows,
        "durationMs": durations,
        **others,
    }


class Query:
    """A query that has reported some batches."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self._jsq = self

    def lastProgress(self) -> Any:
        return self.recentProgress()[-1]

    def recentProgress(self) -> list[Any]:
        return [SimpleNamespace(json=lambda one=one: json.dumps(one)) for one in self.reports]


def hook(*manifests: Manifest) -> Any:
    run = Run()
    for manifest in manifests:
        run.add(manifest)
    return SimpleNamespace(run=run)


def test_the_phases_of_a_batch_are_its_duration() -> None:
    found = phases(DURATIONS)
    assert found == {"offsets": 200, "plan": 40, "fold": 600, "commit": 20, "other": 140}
    assert sum(found.values()) == DURATIONS["triggerExecution"]
    # Spark measures each by itself.
    assert phases({"addBatch": 8, "triggerExecution": 7}) == {"fold": 8, "other": 0}


def test_each_batch_counts_once_also_if_it_was_not_seen() -> None:
    query: Any = Query()
    monitor = QueryMonitor(query, hook(), SimpleNamespace(), None)  # type: ignore[arg-type]
    for reports in (
        [report(0, 0, done=False)],
        [report(0, 5)],
        [report(0, 5), report(1, 0, done=False)],
        [report(0, 5), report(1, 2), report(2, 3), report(3, 0, done=False)],
    ):
        query.reports = reports
        monitor._take_progress()
        monitor._take_progress()
    work = monitor._work_of_all_runs()
    assert (work.rows, work.seconds, work.phases["fold"]) == (10, 3.0, 1.8)


def test_the_work_of_earlier_runs_is_added() -> None:
    query: Any = Query()
    before = Work(rows=100, seconds=10, phases={"fold": 9.5, "gone": 0.5})
    monitor = QueryMonitor(query, hook(), SimpleNamespace(), before, reads=2)  # type: ignore[arg-type]
    assert monitor._work_of_all_runs() == before
    query.reports = [report(7, 4)]
    monitor._take_progress()
    work = monitor._work_of_all_runs()
    assert (work.rows, work.seconds) == (102, 11.0)
    assert (work.phases["fold"], work.phases["gone"], work.phases["plan"]) == (10.1, 0.5, 0.04)


@pytest.mark.parametrize(
    ("event_time", "times", "latency"),
    [
        ({"max": "2026-01-01T12:00:30.000Z", "min": "2026-01-01T12:00:00.000Z"}, {}, 90.0),
        (None, {"orders": {"orders-0": 1_000 * int(START.timestamp()), "orders-1": 0}}, 120.0),
        (None, {}, None),
        ({"watermark": "2026-01-01T11:00:00.000Z"}, {}, None),
        ({"max": "+12026-01-01T12:00:30.000Z"}, {}, None),
        (None, {"orders": {"orders-0": 10**17}}, None),
    ],
)
def test_the_latency_is_that_of_the_newest_row(
    tmp_path: Path, event_time: Any, times: Any, latency: float | None
) -> None:
    log = TableLog(tmp_path)
    published = [publish(log, batch, at=START + timedelta(minutes=batch - 1)) for batch in (2, 3, 4)]
    monitor = TableMonitor.__new__(TableMonitor)
    monitor._hook, monitor._latency = hook(*(replace(one, times=times) for one in published)), None
    given = {} if event_time is None else {"eventTime": event_time}
    monitor._batch_done(report(3, 1, **given))
    assert monitor._latency == latency
    # A batch without rows leaves that of the one before.
    monitor._batch_done(report(3, 0, eventTime={"max": "2026-01-01T11:00:00.000Z"}))
    assert monitor._latency == latency
