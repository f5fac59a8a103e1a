"""Where the time of batches went: from Spark's reports and keyfold's own measures to the file and back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keyfold.engine.batch.durations import Durations
from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.status.batch_times import BatchTimes, of_report, with_waits
from keyfold.engine.status.query_metrics import phases
from keyfold.engine.storage.layout import AppHome
from keyfold.read import batch_times
from keyfold.read.batch_times import MOST, BatchTime
from keyfold.views.contract import Column, ViewSchema
from keyfold.views.stores import views_in
from keyfold.views.types.parse import parse
from tests.log_files import publish

AT = datetime(2026, 1, 1, 12, 0, 5, 250_000, tzinfo=UTC)
SPARK = {"latestOffset": 10, "getBatch": 1, "queryPlanning": 20, "walCommit": 9, "addBatch": 900}


def report(batch: int, **durations: int) -> dict[str, Any]:
    return {
        "batchId": batch,
        "timestamp": "2026-01-01T12:00:05.250Z",
        "numInputRows": 70,
        "durationMs": durations,
    }


def ended(batch: int) -> BatchTime:
    return BatchTime(batch, AT, 1, 2, 3, None, 4, None)


def of(batch: int, **durations: int) -> BatchTime:
    return of_report(report(batch, **durations), phases(durations))


def test_phases_are_those_of_sparks_report() -> None:
    found = of(3, **SPARK, commitOffsets=30, triggerExecution=1000)
    # Writing down what a batch reads is a part of committing, as is what Spark does not name.
    assert found == BatchTime(3, AT, 70, 31, 900, None, 69, None)
    assert of(5, addBatch=7, triggerExecution=7) == BatchTime(5, AT, 70, 0, 7, None, 0, None)


def test_a_wait_is_not_folding() -> None:
    found = of(3, **SPARK, triggerExecution=940)
    waited = with_waits(found, 0.25, 0.031)
    assert (waited.fold, waited.wait, waited.view) == (650, 250, 31)
    assert with_waits(found, 7.0, None).fold == 0
    unknown = with_waits(found, None, None)
    assert (unknown.fold, unknown.wait, unknown.view) == (900, None, None)


def test_the_newest_batches_of_all_runs_are_kept(tmp_path: Path) -> None:
    home = AppHome(tmp_path)
    first = BatchTimes(home)
    first.add({"totals": [ended(n) for n in range(50)], "orders": [ended(4)], "fresh": []})
    second = BatchTimes(home)
    second.add({"totals": [ended(n) for n in range(50, 75)]})
    found = batch_times.read(home)
    assert [one.batch for one in found["totals"]] == list(range(75 - MOST, 75))
    assert found["orders"] == [ended(4)]
    assert found.keys() == {"totals", "orders"}


def test_batches_with_the_numbers_of_others_replace_them(tmp_path: Path) -> None:
    home = AppHome(tmp_path)
    BatchTimes(home).add({"totals": [ended(n) for n in range(10)]})
    BatchTimes(home).add({"totals": [ended(0), ended(1)]})
    assert [one.batch for one in batch_times.read(home)["totals"]] == [0, 1]


def test_a_damaged_file_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "batches.json").write_text('{"tables": {"totals": [[1]]}}')
    assert batch_times.read(AppHome(tmp_path)) == {}


def test_durations_are_those_of_the_newest_batches() -> None:
    found = Durations()
    for batch in range(500):
        found.record(batch, batch / 10)
    assert (found.of(499), found.of(3)) == (49.9, None)


def test_a_follower_measures_how_long_it_takes(tmp_path: Path) -> None:
    schema = ViewSchema("t", (Column("k", parse("string")),), (Column("v", parse("long")),))
    log, store = TableLog(tmp_path / "log"), views_in(tmp_path / "views.db").open(read_only=False)
    store.create(schema)
    follower = ViewFollower(log, store, schema)
    follower.start()
    follower.offer(publish(log, 0, {"change": [{"_op": "upsert", "k": "a", "v": 1}]}, schema=schema.arrow))
    assert follower.wait_for(0)
    follower.close()
    store.close()
    assert (follower.took.of(0) or 0) > 0
