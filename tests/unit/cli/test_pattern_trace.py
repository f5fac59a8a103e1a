"""What `keyfold pattern explain` makes of its file and of what it found, without running anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.cli.reports import pattern_trace, rows_file
from keyfold.errors import BadOption
from keyfold.plan.nodes import Source

ROWS = [{"id": "a\u2028b"}, {"id": "c\x85\x0bd"}]


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("between", ["\n", "\r\n", "\n  \n", "\n\t\r\n\n"])
def test_rows_are_read_a_line_each_whatever_is_in_them(tmp_path: Path, begin: str, between: str) -> None:
    file = tmp_path / "rows.json"
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    file.write_text(begin + between.join(lines) + between, "utf-8", newline="")
    assert rows_file.rows_of(str(file)) == ROWS
    file.write_text(begin + json.dumps(ROWS), "utf-8")
    assert rows_file.rows_of(str(file)) == ROWS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": 1}\nnot json\n', r"(?s)not JSON.*rows.json, line 2"),
        ('{"id": 1}\n5\n', r"(?s)row 2 is not an object.*5 in "),
        ("\n \n", "the file has no rows"),
        ("[]", "the file has no rows"),
    ],
)
def test_a_file_that_has_no_rows_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(text, "utf-8")
    with pytest.raises(BadOption, match=said):
        rows_file.rows_of(str(file))


def test_fields_that_are_no_columns_are_left_out_and_told() -> None:
    stream = kf.App("a").stream("s", kf.rows([]), "card string, At timestamp").node
    assert isinstance(stream, Source)
    # Spark reads fields of JSON by their exact names.
    rows = [{"card": "x", "at": "y"}, {"crd": "x", "extra": 1, "At": "z"}, {"extra": 2}]
    assert rows_file.split(rows, stream) == ([{"card": "x"}, {"At": "z"}, {}], ["at", "crd", "extra"])


def test_a_row_that_the_pattern_tells_of_itself_is_not_told_again() -> None:
    lines = [
        {"key": {}, "row": {"a": 1.0, "b": None}, "mark": "1", "rejected": "divided"},
        {"key": {}, "row": {"a": 2.0, "b": None}, "mark": "2"},
    ]
    rejected = [
        {"reason": "divided", "raw": '{"b":null,"a":1.0}'},
        {"reason": "divided", "raw": '{"a":1.0,"b":null}'},
        {"reason": "no number", "raw": '{"a":2.0,"b":null}'},
        {"reason": "malformed JSON", "raw": "{a"},
    ]
    assert pattern_trace.untraced_rows(rejected, lines) == rejected[1:]
