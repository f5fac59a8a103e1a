"""app.json: what is written is what is read, files of earlier versions too, and what a new start keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import (
    Rename,
    StoredApp,
    StoredLog,
    StoredStream,
    StoredTable,
)
from keyfold.errors import HomeUnusable

AT = datetime(2026, 1, 1, tzinfo=UTC)
TABLE: dict[str, Any] = {
    "fingerprint": "f00",
    "meaning": {"column:n": "count(1)", "keys": "region"},
    "streams": ["orders"],
    "tables": [],
    "directories": {"orders": "file:/data"},
    "state": [{"name": "value"}],
    "layout": {"kind": "running", "fields": []},
    "shared": ["orders"],
    "partitions": 4,
    "since": {"n": {"at": AT.isoformat(), "batch": 3}},
    "initial": {"declared": "files of data", "until": AT.isoformat(), "rows": 9},
    "renamed": [{"from": "sums", "at": "2026-01-02T00:00:00+00:00"}],
}
APP: dict[str, Any] = {
    "layout": 1,
    "spark": "4.3.0",
    "app": "shop",
    "declared": {"name": "shop", "streams": [{"name": "orders"}], "tables": [{"name": "totals"}]},
    "streams": {
        "orders": {"shared": True, "history": None, "columns": {"region": "string"}, "directories": {}},
        "visits": {"shared": False},
    },
    "tables": {"totals": TABLE},
}


def test_what_is_written_is_what_was_read_in_the_same_order(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    home.storage.put("app.json", json.dumps(APP).encode())
    found = home.read_plan()
    home.write_plan(found)
    assert json.dumps(json.loads(home.storage.read("app.json"))) == json.dumps(APP)
    assert found.tables["totals"].renamed == (Rename("sums", "2026-01-02T00:00:00+00:00"),)
    assert (found.tables["totals"].began_with, found.tables["totals"].boundary) == (
        "files of data",
        AT.isoformat(),
    )
    assert (list(found.declared_streams), list(found.declared_tables)) == (["orders"], ["totals"])


def test_an_entry_of_a_new_table_has_nothing_of_what_comes_later() -> None:
    assert StoredTable(partitions=2).to_json().keys() == TABLE.keys() - {"since", "initial", "renamed"}
    assert StoredStream(shared=True).to_json() == {"shared": True}


def test_files_of_earlier_versions_are_read() -> None:
    found = StoredApp.from_json(
        {"tables": {"totals": {"meaning": {"keys": "k"}, "since": {"n": "2026-01-01"}}}}
    )
    assert (found.layout, found.spark, found.declared_tables, found.log("orders")) == (
        None,
        None,
        {},
        StoredLog(),
    )
    totals = found.tables["totals"]
    assert (totals.shared, totals.layout, totals.partitions, totals.boundary) == ((), {}, None, None)
    assert totals.since == {"n": KnownSince(datetime(2026, 1, 1), None)}


def test_before_the_first_start_nothing_is_recorded(tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    assert home.read_plan() == StoredApp()
    assert not home.read_plan().exists
    home.write_plan(StoredApp())
    assert home.read_plan().exists
    home.storage.put("app.json", b'{"tables": []}')
    with pytest.raises(HomeUnusable, match="it has no tables"):
        home.read_plan()


def test_a_start_keeps_what_is_recorded_once_and_what_is_no_longer_declared() -> None:
    old = StoredApp.from_json(APP)
    now = StoredTable(meaning={"keys": "region"}, partitions=4)
    new = StoredApp({"totals": now, "more": now}, {"orders": StoredStream(), "new": StoredStream()})
    found = old.followed_by(new)
    before = old.tables["totals"]
    assert found.tables == {
        "totals": replace(now, initial=before.initial, renamed=before.renamed),  # the column is gone
        "more": now,
    }
    assert found.streams == {
        "orders": StoredStream(False, old.log("orders")),
        "visits": StoredStream(),
        "new": StoredStream(),
    }
    assert old.followed_by(StoredApp()).tables == old.tables
    kept = old.followed_by(StoredApp({"totals": replace(before, since={})})).tables["totals"]
    assert kept == before
