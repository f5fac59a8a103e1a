"""Rows as lines of JSON: the same as one value after the other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from keyfold.read import open_home
from keyfold.read.tabular import json_lines
from keyfold.read.values import plain, utf8


def test_lines_have_the_values_that_json_has(home: Path) -> None:
    with open_home(home) as reader:
        for name in ("totals", "pairs", "kinds"):
            table = reader.table(name)
            lines = json_lines(table.rows(), table.schema)
            assert [json.loads(line) for line in lines.splitlines()] == plain(table.rows())
            assert lines.endswith(b"\n")
        assert json_lines([], table.schema) == b""


def test_json_for_other_programs_is_utf8_whatever_the_terminal_has() -> None:
    value = {"a": "ä", "at": datetime(2026, 1, 1, tzinfo=UTC), "x": [float("nan"), Decimal("1.50")]}
    text = '{"a": "ä", "at": "2026-01-01T00:00:00Z", "x": ["NaN", "1.50"]}'
    assert utf8(plain(value)) == text.encode()
    # What is no text, as an error may quote it, is an escape.
    assert utf8("\ud800") == b'"\\ud800"'
