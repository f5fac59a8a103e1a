"""A prepared batch is published once Spark has committed it, and forgotten if Spark has not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from keyfold.engine.log import prepared
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.operations import unfinished
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.fault_points import FaultPoint, handled_by

COUNTS = {"change": 1, "late": 0, "rejected": 0, "duplicate": 0}


@pytest.fixture
def app_home(tmp_path: Path) -> AppHome:
    return AppHome(tmp_path / "shop")


@pytest.fixture
def home(app_home: AppHome) -> TableHome:
    return app_home.table("totals")


def manifest(batch: int) -> Manifest:
    return Manifest(batch, 1, datetime.now(UTC), None, COUNTS, times={"orders": {"t-0": 5}})


def commit(home: TableHome, batch: int) -> None:
    """What Spark writes for a batch in real-time mode, one after the other."""
    home.spark.storage.put(
        f"offsets/{batch}", b'v1\n{"batchWatermarkMs":60000}\n{"orders":{"0":%d}}' % (batch + 3)
    )
    home.spark.storage.put(f"commits/{batch}", b'v1\n{"nextBatchWatermarkMs":120000}')


def test_a_committed_batch_is_published_with_what_spark_recorded(home: TableHome) -> None:
    log = TableLog(home.log_files)
    for batch in (0, 1):
        prepared.prepare(log, manifest(batch))
        assert log.newest() == (batch - 1 if batch else None), "not before its commit"
        commit(home, batch)
        published = prepared.settle(home, "totals")
        assert published is not None
        assert log.find(batch) == published
        assert (published.previous, published.offsets) == (
            batch - 1 if batch else None,
            ({"orders": {"0": batch + 3}},),
        )
        assert published.watermark == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
        assert published.times == {"orders": {"t-0": 5}}
    assert prepared.settle(home, "totals") is None
    assert home.spark.next_watermark(1) == datetime(1970, 1, 1, 0, 2, tzinfo=UTC)


def test_a_batch_that_is_not_committed_is_forgotten(app_home: AppHome, home: TableHome) -> None:
    log = TableLog(home.log_files)
    prepared.prepare(log, manifest(0))
    unfinished.finish(app_home)
    commit(home, 0)  # of another attempt, which has not come to its end
    assert prepared.settle(home, "totals") is None
    assert log.batches() == []


def test_a_start_publishes_what_a_kill_has_left_also_if_it_is_killed_itself(
    app_home: AppHome, home: TableHome
) -> None:
    class Crash(Exception):
        pass

    def crash(point: FaultPoint, facts: dict[str, object]) -> None:
        if point == FaultPoint.BATCH_PUBLISHED:
            raise Crash

    prepared.prepare(TableLog(home.log_files), manifest(0))
    commit(home, 0)
    with handled_by(crash), pytest.raises(Crash):
        unfinished.finish(app_home)
    unfinished.finish(app_home)
    assert TableLog(home.log_files).batches() == [0]
    assert prepared.settle(home, "totals") is None
