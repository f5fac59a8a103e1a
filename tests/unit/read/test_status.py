"""The status as typed values, and its JSON, which other programs read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.status.monitor import record_failure
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import RunError
from keyfold.read import open_home
from keyfold.read.metrics import RunStatus, StreamStatus, TableStatus, read_status
from tests.cli.conftest import ROWS, TOTALS, make_app

AT = "2026-01-01T12:00:00.000250+00:00"
TABLE: dict[str, Any] = {
    "running": True,
    "batch": 12,
    "at": AT,
    "rows": 100,
    "rows_per_second": 1.5,
    "batch_ms": 350,
    "keys": 7,
    "keys_at": AT,
    "state_bytes": None,
    "watermark": "2026-01-01T11:00:00+00:00",
    "lag_seconds": 7.25,
    "batch_done": None,
    "files_left": 3,
    "done": 0.5,
    "messages_left": 4,
    "messages_left_by_partition": {"orders-0": 4},
    "watermark_held_by": {
        "stream": "orders",
        "partition": "orders-0",
        "newest": AT,
        "since": AT,
        "idle": ["orders-1"],
    },
    "late": 1,
    "rejected": 2,
    "rejecting": {"batch": 11, "rejected": 10, "share": 0.95, "reason": "key a is null"},
    "all_rejected": False,
    "duplicates": 0,
    "dropped_partials": 0,
    "latency_seconds": 0.75,
    "all_runs": {"rows": 1_000, "seconds": 4.5, "phases": {"fold": 4.0, "other": 0.5}},
}
STREAM: dict[str, Any] = {
    "running": True,
    "batch": 12,
    "rows": 100,
    "rows_per_second": 1.5,
    "batch_ms": None,
    "batch_done": None,
    "files_left": 0,
    "done": None,
    "messages_left": None,
    "messages_left_by_partition": {},
    "recorded": 98,
    "rejected": 2,
    "rejecting": None,
    "all_rejected": False,
    "all_runs": {"rows": 1_200, "seconds": 2.25, "phases": {"fold": 2.25}},
}
STATUS: dict[str, Any] = {
    "app": "shop",
    "home": "/srv/shop",
    "pid": 4711,
    "started": AT,
    "at": AT,
    "streams": {"orders": STREAM},
    "tables": {"totals": TABLE},
    "lookups": {"regions": {"rows": 5, "loaded": AT, "version": 1, "error": None}},
    "batch_limits": {"orders": {"files": 100, "bytes": 1 << 30}},
    "failures": [{"at": AT, "table": "totals", "batch": 12, "kind": "QueryFailed", "text": "no\nluck"}],
}


def same(one: Any, other: Any) -> bool:
    """Whether two documents are equal, in the order of their fields too."""
    return json.dumps(one) == json.dumps(other)


def test_a_status_is_read_as_it_was_written() -> None:
    found = RunStatus.read(STATUS)
    assert same(found.document(), STATUS)
    totals = found.tables["totals"]
    assert totals.at == datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=UTC)
    assert totals.watermark_held_by is not None
    assert totals.watermark_held_by.newest == totals.at == found.values()["tables"]["totals"]["at"]
    assert found.failures[0].text == "no\nluck"
    assert found.lookups["regions"].rows == 5


def test_a_table_and_a_stream_have_these_fields() -> None:
    assert list(TableStatus().document()) == list(TABLE)
    assert list(StreamStatus().document()) == list(STREAM)
    assert list(RunStatus().document()) == list(STATUS)


def test_fields_of_another_version_are_neither_missed_nor_kept() -> None:
    older = {name: value for name, value in TABLE.items() if name not in ("keys_at", "dropped_partials")}
    found = TableStatus.read({**older, "of_tomorrow": 1})
    assert same(found.document(), older)
    assert (found.keys_at, found.dropped_partials) == (None, None)
    assert same(found.replace(running=False).document(), {**older, "running": False})


@pytest.fixture
def home(tmp_path: Path) -> AppHome:
    home = AppHome(tmp_path / "shop")
    make_app(home, {TOTALS: ROWS[TOTALS]})
    return home


def test_a_status_that_cannot_be_read_is_none(home: AppHome) -> None:
    for damaged in ("{", "[]", '{"at": "yesterday"}', '{"tables": {"totals": 5}}', '{"failures": [{}]}'):
        home.status.write_text(damaged)
        assert read_status(home).tables == {}
        assert open_home(home.path.parent).app("shop").status().state == "stopped"


def test_the_status_of_a_table_that_has_none_is_its_views(home: AppHome) -> None:
    status = open_home(home.path.parent).app("shop").status()
    assert (status.state, status.running, status.seen) == ("stopped", False, None)
    assert status.document()["tables"] == {
        "totals": {"running": False, "batch": 1, "at": "2026-01-01T12:00:01+00:00", "keys": 3}
    }
    home.views.remove()
    status = open_home(home.path.parent).app("shop").status()
    assert status.document()["tables"] == {"totals": {"running": False}}
    assert status.problem is None


def test_damaged_views_are_not_those_of_an_app_without_any(home: AppHome) -> None:
    (home.path / "views.db").write_bytes(b"no database" * 1000)
    status = open_home(home.path.parent).app("shop").status()
    assert status.document()["tables"] == {"totals": {"running": False}}
    assert status.problem is not None
    assert "cannot read the views: file is not a database" in status.problem


def test_the_document_of_an_app_is_what_status_prints(home: AppHome) -> None:
    home.write_status(STATUS)
    found = open_home(home.path.parent).app("shop").status().document()
    assert found.pop("age_seconds") > 0
    assert same(
        found,
        {
            "app": "shop",
            "home": str(home.path),
            "state": "failed",
            "running": False,
            "pid": None,
            "started": AT,
            "seen": AT,
            "ended": "failed",
            "failures": STATUS["failures"],
            "lookups": STATUS["lookups"],
            "streams": {"orders": {**STREAM, "running": False}},
            "batch_limits": STATUS["batch_limits"],
            "tables": {"totals": {**TABLE, "running": False}},
            "problem": None,
        },
    )


def test_a_running_app_tells_its_process(home: AppHome) -> None:
    lease = Lease(home).take()
    try:
        later = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        home.write_status({**STATUS, "at": later, "failures": []})
        status = open_home(home.path.parent).app("shop").status()
        assert (status.state, status.pid, status.running, status.ended) == (
            "running",
            os.getpid(),
            True,
            None,
        )
        assert (status.tables["totals"].running, status.streams["orders"].running) == (True, True)
        home.write_status(STATUS)
        starting = open_home(home.path.parent).app("shop").status()
        assert (starting.state, starting.failures) == ("starting", [])
    finally:
        lease.release()


def test_a_failed_start_is_added_to_the_last_status(home: AppHome) -> None:
    home.write_status({**STATUS, "failures": []})
    record_failure(home, RunError("no port", table="totals"))
    found = read_status(home)
    assert [(one.table, one.kind) for one in found.failures] == [("totals", "RunError")]
    assert found.tables["totals"] == RunStatus.read(STATUS).as_stopped().tables["totals"]
    home.status.unlink()
    record_failure(home, RunError("no port"))
    assert set(home.read_status()) == {"app", "started", "streams", "tables", "failures"}
