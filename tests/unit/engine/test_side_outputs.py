"""Rows written for a stream to read, and what differs between definitions."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.recovery import definition, definition_check
from keyfold.engine.sources import json_rows
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import HomeUnusable


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    for directory in (home.path / "sinks", home.path / "side", home.path / "control" / "s"):
        directory.mkdir(parents=True)
        (directory / ".000000000001.4711").touch()
        (directory / "whole").touch()
    home.sweep()
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"whole"}


def test_python_values_are_spelt_for_sparks_json_reader() -> None:
    row = {
        "at": datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        "naive": datetime(2026, 1, 1),
        "day": date(2026, 1, 1),
        "d": Decimal("1.50"),
        "b": b"\x00\xff",
        "t": (1, 2),
    }
    assert json.loads(json_rows.encode([row])) == {
        "at": "2026-01-01T00:00:00Z",
        "naive": "2026-01-01T00:00:00",
        "day": "2026-01-01",
        "d": "1.50",
        "b": "AP8=",
        "t": [1, 2],
    }
    assert json_rows.encode(["{raw"]) == "{raw\n"
    with pytest.raises(TypeError, match="object"):
        json_rows.encode([{"x": object()}])


def test_what_differs_between_two_definitions_is_said_part_by_part() -> None:
    old = {"column:n": "count(1)", "ttl": "5 ms"}
    new = {"column:n": "count(id)", "key:k": "k"}
    assert definition.differences(old, new) == [
        "column n: count(1) on disk, count(id) now",
        "ttl: 5 ms on disk, nothing now",
        "key k: nothing on disk, k now",
    ]
    assert definition.fingerprint(old) != definition.fingerprint(new)
    assert definition.fingerprint(old) == definition.fingerprint(dict(reversed(old.items())))


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ({"layout": 99}, "layout 99, and this version of keyfold reads layout 1"),
        ({"spark": "99.1.0"}, r"last written by Spark 99\.1\.0, and this is Spark"),
    ],
)
def test_a_home_of_another_version_is_refused(tmp_path: Path, stored: dict[str, Any], problem: str) -> None:
    with pytest.raises(HomeUnusable, match=problem):
        definition_check._refuse_other_versions(
            StoredApp.from_json({"tables": {}, **stored}), AppHome(tmp_path)
        )
    for fitting in ({}, {"layout": 1, "spark": "4.3.9"}, {"layout": 1, "spark": "3.5.0"}):
        definition_check._refuse_other_versions(
            StoredApp.from_json({"tables": {}, **fitting}), AppHome(tmp_path)
        )
