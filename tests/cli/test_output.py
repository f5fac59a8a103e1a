"""Values on stdout: strict JSON, and text that a terminal can't be tricked by."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from keyfold.cli import output

PLUS_TWO = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**63, 2**63),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, 2, 0, 0, 5, tzinfo=PLUS_TWO), "2026-01-01T00:00:00.000005Z"),
        (datetime(2026, 1, 1), "2026-01-01T00:00:00"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(13, 30), "13:30:00"),
        (timedelta(hours=1, milliseconds=500), "PT3600.5S"),
        (timedelta(seconds=-1), "-PT1S"),
        (Decimal("1E+3"), "1000"),
        (Decimal("12.30"), "12.30"),
        (b"\x00\xff", "AP8="),
        ([1, (2.0, float("nan"))], [1, [2.0, "NaN"]]),
        ({1: "a", 2.5: "b"}, {"1": "a", "2.5": "b"}),
        ({True: "a"}, {"true": "a"}),
        ({date(2026, 1, 1): {"x": b"a"}}, {"2026-01-01": {"x": "YQ=="}}),
        ({(1, "a"): 2, None: 3}, {'[1, "a"]': 2, "null": 3}),
    ],
)
def test_a_value_as_json(value: Any, expected: Any) -> None:
    found = output.plain(value)
    assert found == expected
    assert type(found) is type(expected)
    json.dumps(found, allow_nan=False)


def test_an_array_is_one_document_with_an_item_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.json_array(iter([{"a": 1}, {"a": float("nan")}]))
    out = capsys.readouterr().out
    assert json.loads(out) == [{"a": 1}, {"a": "NaN"}]
    assert len(out.splitlines()) == 4


def test_an_empty_array_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    output.json_array([])
    assert json.loads(capsys.readouterr().out) == []


def test_control_characters_are_spelled_out() -> None:
    assert output.cell("a\x1b[31m\nb\x9b") == r"a\x1b[31m\nb\x9b"
    assert output.cell(None) == "null"
    assert output.cell({"a": [1, None]}) == '{"a": [1, null]}'


def test_a_long_table_comes_in_pieces_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("n",), ([n] for n in range(2_500)), right=("n",))
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.strip().isdigit()] == [str(n) for n in range(2_500)]
    assert sum(line.strip() == "n" for line in lines) == 3


def test_markup_in_a_value_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("[red]a",), [["[bold]x[/bold] :smile:"]])
    out = capsys.readouterr().out
    assert "[red]a" in out
    assert "[bold]x[/bold] :smile:" in out


def test_what_is_wide_stays_in_one_line_where_a_program_reads(capsys: pytest.CaptureFixture[str]) -> None:
    output.pairs({"long": "x" * 500})
    assert "x" * 500 in capsys.readouterr().out


def test_what_users_code_prints_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with output.only_results():
        print("noise")
    print("result")
    assert capfd.readouterr().out == "result\n"
    assert sys.stdout is not sys.stderr
