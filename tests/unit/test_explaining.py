"""What `keyfold pattern explain` makes of its file and of what it found, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyfold.cli import explaining

ROWS = [{"id": "a\u2028b"}, {"id": "c\x85\x0bd"}]


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("between", ["\n", "\r\n", "\n  \n", "\n\t\r\n\n"])
def test_rows_are_read_a_line_each_whatever_is_in_them(tmp_path: Path, begin: str, between: str) -> None:
    file = tmp_path / "rows.json"
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    file.write_text(begin + between.join(lines) + between, "utf-8", newline="")
    assert explaining.rows_of(str(file)) == ROWS
    file.write_text(begin + json.dumps(ROWS), "utf-8")
    assert explaining.rows_of(str(file)) == ROWS


def test_a_row_that_the_pattern_tells_of_itself_is_not_told_again() -> None:
    lines = [
        {"key": {}, "row": {"a": 1.0, "b": None}, "mark": "1", "rejected": "divided"},
        {"key": {}, "row": {"a": 2.0, "b": None}, "mark": "2"},
    ]
    rejected = [
        {"reason": "divided", "raw": '{"b":null,"a":1.0}'},
        {"reason": "divided", "raw": '{"a":1.0,"b":null}'},
        {"reason": "no number", "raw": '{"a":2.0,"b":null}'},
        {"reason": "no JSON", "raw": "{a"},
    ]
    assert explaining.unseen(rejected, lines) == rejected[1:]
