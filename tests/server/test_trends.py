"""`/api/apps/{app}/trends`: the figures of tables over time, as a running app records them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keyfold.engine.status.size_history import SizeHistory
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredTable
from keyfold.read.metrics import RunStatus, TableStatus
from tests.server.conftest import client, fill, serving

NOW = datetime.now(UTC)


def status(minutes_ago: int, batch: int, rows: int, **more: int) -> RunStatus:
    table = TableStatus(batch=batch, rows=rows, keys=4, state_bytes=100 * batch, batch_ms=250, **more)
    return RunStatus(at=NOW - timedelta(minutes=minutes_ago), tables={"totals": table})


@pytest.fixture
def shop(tmp_path: Path) -> AppHome:
    fill(tmp_path)
    return AppHome(tmp_path / "shop")


def test_the_figures_are_those_that_runs_have_recorded(shop: AppHome) -> None:
    first = SizeHistory(shop)
    first.add(status(180, 1, 600, late=0, rejected=1))
    first.add(status(178, 2, 1800, late=3, rejected=1))
    second = SizeHistory(shop)
    second.add(status(20, 7, 60, late=3, rejected=1))
    second.add(status(10, 9, 660, late=3, rejected=2))
    with serving(shop.path.parent) as server:
        get = client(server)
        points = get("/api/apps/shop/trends").json["tables"]["totals"]
        assert [one["batch"] for one in points] == [1, 2, 7, 9]
        # A run counts its rows from zero: of its first point there is no rate.
        assert [one["rows_per_second"] for one in points] == [None, 10.0, None, 1.0]
        assert [(one["late"], one["rejected"]) for one in points] == [(0, 1), (3, 1), (3, 1), (3, 2)]
        assert [one["state_bytes"] for one in points] == [100, 200, 700, 900]
        newest = get("/api/apps/shop/trends?last=1h").json["tables"]["totals"]
        assert [one["batch"] for one in newest] == [7, 9]
        assert get("/api/apps/shop/trends?last=soon").error["hint"] == "last=1h"


def test_samples_of_an_earlier_version_have_sizes_alone(shop: AppHome) -> None:
    (shop.path / "sizes.json").write_text(json.dumps({"tables": {"totals": [[NOW.timestamp(), 3, 4, 500]]}}))
    with serving(shop.path.parent) as server:
        (point,) = client(server)("/api/apps/shop/trends").json["tables"]["totals"]
    assert (point["batch"], point["keys"], point["state_bytes"], point["batch_ms"]) == (3, 4, 500, None)


def test_without_a_record_there_are_no_points(shop: AppHome) -> None:
    with serving(shop.path.parent) as server:
        get = client(server)
        assert get("/api/apps/shop/trends").json == {"app": "shop", "tables": {}}
        assert get("/api/apps/none/trends").error["reason"] == "not_found"


def test_a_table_that_was_reset_begins_anew(shop: AppHome) -> None:
    history = SizeHistory(shop)
    for minutes, batch in ((90, 40), (80, 41), (30, 0), (20, 5)):
        history.add(status(minutes, batch, batch))
    with serving(shop.path.parent) as server:
        points = client(server)("/api/apps/shop/trends").json["tables"]["totals"]
    assert [one["batch"] for one in points] == [0, 5]


def test_health_is_served_and_follows_from_what_is_recorded(shop: AppHome) -> None:
    (shop.path / "status.json").write_text(
        json.dumps({"app": "shop", "tables": {"totals": {"batch": 1, "rejected": 3, "late": 1}}})
    )
    # A table that has no view yet.
    plan = shop.read_plan()
    shop.write_plan(plan.with_tables({**plan.tables, "later": StoredTable()}))
    with serving(shop.path.parent) as server:
        found = client(server)("/api/apps/shop/health").json
    assert [(one["level"], one["table"], one["command"]) for one in found["advice"]] == [
        ("hint", None, "keyfold savepoint create NAME --app shop"),
        ("hint", "totals", "keyfold side show rejected shop.totals"),
        ("hint", "totals", "keyfold side show late shop.totals"),
    ]
