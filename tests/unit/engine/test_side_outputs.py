"""Files beside a table, and rows written for a stream to read."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.batch import hook, rejected_rows, side_outputs
from keyfold.engine.batch.side_outputs import SideOutput
from keyfold.engine.recovery import definition_check
from keyfold.engine.sources import json_rows
from keyfold.engine.storage.layout import TableHome


def test_rejected_rows_of_a_batch_are_replaced_when_it_runs_again(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    for _ in range(2):
        file = rejected_rows.RejectedFile(home, 3)
        file.write([{"reason": "r", "raw": "a\u2028b"}])
        file.write([{"reason": "s", "raw": "c"}])
        file.close()
    found = side_outputs.read_rejected(home)
    assert [(r["batch"], r["reason"], r["raw"]) for r in found] == [(3, "r", "a\u2028b"), (3, "s", "c")]
    assert sum(side_outputs.counts(home.rejected).values()) == 2


def test_a_rejected_file_is_one_entry_whoever_read_its_parts(tmp_path: Path) -> None:
    home, file = TableHome(tmp_path), rejected_rows.RejectedFile(TableHome(tmp_path), 3)
    part: SideOutput = {"kind": "file", "stream": "s", "file": "/a.csv", "reason": None, "count": 5}
    whole: SideOutput = {**part, "reason": "the header of a.csv is ...", "raw": "1,2", "count": 7}
    file.write([part])
    file.write([whole, {"reason": "key k is null", "raw": "{}"}, {**part, "count": 1}])
    file.write([{**whole, "file": "/b.csv", "reason": "the header of b.csv is ...", "count": 0}])
    file.close()
    found = {row.get("file"): row.get("rows") for row in side_outputs.read_rejected(home)}
    assert found == {None: None, "/a.csv": 13, "/b.csv": 0}
    assert file.rows == 3
    assert file.refusal() == rejected_rows.Refusal(3, rejected=15, most=14, reason=whole["reason"])


def test_reasons_that_differ_in_values_alone_are_of_one_kind(tmp_path: Path) -> None:
    file = rejected_rows.RejectedFile(TableHome(tmp_path), 3)
    said = [f"event time 2999-01-0{n}T00:00:00Z is too far in the future" for n in range(1, 9)]
    said += [f"[CAST_INVALID_INPUT] The value '{n}x' of the type" for n in range(3)]
    file.write([{"reason": reason, "raw": "{}"} for reason in said])
    file.close()
    assert file.refusal() == rejected_rows.Refusal(3, rejected=11, most=8, reason=said[0])
    assert rejected_rows.RejectedFile(TableHome(tmp_path), 4).refusal() is None


def test_a_batch_that_puts_nothing_aside_when_it_runs_again_leaves_no_file(tmp_path: Path) -> None:
    home, counted = TableHome(tmp_path), dict[int, int]()
    for rows in ([{"reason": "r", "raw": "x"}], []):
        file = rejected_rows.RejectedFile(home, 3)
        file.write(rows)
        file.close()
        file.count(counted)
    assert list(home.rejected.iterdir()) == []
    assert counted == {3: 0}
    untouched = rejected_rows.RejectedFile(home, 4)
    untouched.close()
    untouched.count(counted)
    assert counted == {3: 0}


def test_late_rows_and_rejected_ones_go_to_files_of_their_own(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    late: SideOutput = {
        "kind": "late",
        "reason": "closed",
        "raw": "late",
        "stream": "s",
        "event_time": 1,
        "watermark": 2000,
        "missed": 1,
        "last_end": 1000,
        "windows": [{"start": 0, "end": 1000}],
    }
    rows: list[SideOutput] = [{"kind": "rejected", "reason": "r", "raw": "bad"}, late]
    for found in (rows, rows[:1]):
        files = hook.SideOutputFiles(home, 3)
        files.write(pa.array(found))
        files.close()
        assert [row["raw"] for row in side_outputs.read_rejected(home)] == ["bad"]
        assert side_outputs.counts(home.late) == ({3: 1} if found is rows else {})


def test_what_a_killed_process_left_half_written_is_swept_away(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    for directory in (home.late, home.rejected, home.changes, home.side, home.control):
        directory.mkdir(parents=True)
        (directory / ".000000000001.4711").touch()
        (directory / "whole").touch()
    home.sweep()
    assert {file.name for file in tmp_path.glob("*/*")} == {"whole"}


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
    assert definition_check.differences(old, new) == [
        "column n: count(1) on disk, count(id) now",
        "ttl: 5 ms on disk, nothing now",
        "key k: nothing on disk, k now",
    ]
    assert definition_check.fingerprint(old) != definition_check.fingerprint(new)
    assert definition_check.fingerprint(old) == definition_check.fingerprint(dict(reversed(old.items())))
