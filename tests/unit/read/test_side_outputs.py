"""Rejected and duplicate rows as users read them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from keyfold.engine.log.table_log import TableLog
from keyfold.read import side_outputs
from keyfold.read.side_rows import RejectedRow
from tests.log_files import publish

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_side_outputs_are_read_by_kind_with_the_batch_they_are_of(tmp_path: Path) -> None:
    log = TableLog(tmp_path)
    publish(log, 3, {"rejected": [{"kind": "rejected", "reason": "r", "raw": "a\u2028b", "stream": "s"}]})
    whole = {"kind": "file", "reason": "the header is ...", "raw": "1,2", "file": "/a.csv", "count": 13}
    kept = {"kind": "duplicate", "step": "distinct id", "raw": "{}", "count": 1}
    publish(log, 12, {"rejected": [whole], "duplicate": [kept]})
    first, second = (row.document() for row in side_outputs.read_rejected(log))
    assert first.pop("at") <= second.pop("at") <= datetime.now(UTC)
    assert first == {"batch": 3, "reason": "r", "raw": "a\u2028b", "stream": "s"}
    assert second == {
        "batch": 12, "reason": "the header is ...", "raw": "1,2", "file": "/a.csv", "rows": 13
    }  # fmt: skip
    (duplicate,) = side_outputs.duplicates(log)
    assert (duplicate.batch, duplicate.step, duplicate.raw) == (12, "distinct id", "{}")
    assert set(duplicate.document()) == {"batch", "at", "step", "raw"}
    assert list(side_outputs.late(log)) == []


def test_a_row_that_several_tables_refuse_is_listed_once_and_two_alike_twice() -> None:
    a, b = ([RejectedRow(0, AT, "r", raw) for raw in raws] for raws in ("xxy", "xz"))
    assert [row.raw for row in side_outputs.of_stream("orders", [a, b])] == ["x", "x", "y", "z"]


def test_rows_of_other_streams_of_a_union_are_left_out() -> None:
    rows = [RejectedRow(0, AT, "r", raw, stream=stream) for raw, stream in (("a", "Orders"), ("b", "clicks"))]
    assert [row.raw for row in side_outputs.of_stream("orders", [rows])] == ["a"]
