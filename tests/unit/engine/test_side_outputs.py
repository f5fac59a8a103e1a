"""Side outputs as a log has them, and rows written for a stream to read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine.log import side_outputs
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import definition, definition_check
from keyfold.engine.sources import json_rows
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import HomeUnusable
from tests.log_files import publish


def test_side_outputs_are_read_by_kind_with_the_batch_they_are_of(tmp_path: Path) -> None:
    log = TableLog(tmp_path)
    publish(log, 3, {"rejected": [{"kind": "rejected", "reason": "r", "raw": "a\u2028b", "stream": "s"}]})
    whole = {"kind": "file", "reason": "the header is ...", "raw": "1,2", "file": "/a.csv", "count": 13}
    kept = {"kind": "duplicate", "step": "distinct id", "raw": "{}", "count": 1}
    publish(log, 12, {"rejected": [whole], "duplicate": [kept]})
    first, second = side_outputs.rejected(log)
    assert first.pop("at") <= second.pop("at") <= datetime.now(UTC)
    assert first == {"batch": 3, "reason": "r", "raw": "a\u2028b", "stream": "s"}
    assert second == {
        "batch": 12, "reason": "the header is ...", "raw": "1,2", "file": "/a.csv", "rows": 13
    }  # fmt: skip
    (duplicate,) = side_outputs.duplicates(log)
    assert {name: duplicate[name] for name in ("batch", "step", "raw")} == {
        "batch": 12, "step": "distinct id", "raw": "{}"
    }  # fmt: skip
    assert list(side_outputs.late(log)) == []


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    for directory in (home.path / "sinks", home.path / "side", home.path / "control" / "s"):
        directory.mkdir(parents=True)
        (directory / ".000000000001.4711").touch()
        (directory / "whole").touch()
    home.sweep()
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"whole"}


def test_a_row_that_several_tables_refuse_is_listed_once_and_two_alike_twice() -> None:
    a = [{"raw": "x"}, {"raw": "x"}, {"raw": "y"}]
    b = [{"raw": "x"}, {"raw": "z"}]
    assert [r["raw"] for r in side_outputs.of_stream("orders", [a, b])] == ["x", "x", "y", "z"]


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
        definition_check._refuse_other_versions(stored, AppHome(tmp_path))
    for fitting in ({}, {"layout": 1, "spark": "4.3.9"}, {"layout": 1, "spark": "3.5.0"}):
        definition_check._refuse_other_versions(fitting, AppHome(tmp_path))
