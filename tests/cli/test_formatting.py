"""Numbers as people see them, and the live screen at every width."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from keyfold.cli import formatting
from keyfold.cli.terminal.live_screen import RemainingTime, Screen
from keyfold.cli.terminal.log_lines import line, warn
from keyfold.cli.terminal.startup_bar import STEPS, Starting
from keyfold.read.metrics import RunStatus, TableStatus

TABLE: dict[str, Any] = {
    "running": True,
    "batch": 12,
    "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
    "rows": 1_234_567,
    "rows_per_second": 45_678.9,
    "batch_ms": 350,
    "keys": 9_999,
    "state_bytes": 2_147_490,
    "watermark": datetime(2026, 1, 1, 11, 50, tzinfo=UTC),
    "lag_seconds": 7_300.0,
    "batch_done": 0.5,
    "files_left": 3,
    "done": 0.4,
    "late": 0,
    "rejected": 7,
}
EMPTY: dict[str, Any] = {**dict.fromkeys(TABLE), "running": True, "late": 0, "rejected": 0}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0, "0"),
        (1.5, "1.5"),
        (950, "950"),
        (9_999, "9,999"),
        (12_345, "12.3k"),
        (999_400, "999k"),
        (999_999, "1M"),
        (4_560_000, "4.56M"),
        (2e9, "2G"),
    ],
)
def test_counts_are_short(number: float | None, text: str) -> None:
    assert formatting.count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0 ms"),
        (0.35, "350 ms"),
        (3.21, "3.2 s"),
        (59.9, "59 s"),
        (200, "3 min 20 s"),
        (7300, "2 h 1 min"),
        (86400 * 5, "5 d"),
        (-90, "-1 min 30 s"),
    ],
)
def test_lengths_of_time_have_two_units(seconds: float | None, text: str) -> None:
    assert formatting.span(seconds) == text


def test_bytes_have_a_unit() -> None:
    assert [formatting.size(n) for n in (None, 0, 999, 1_500, 2_147_490, 5e9)] == [
        "-",
        "0 B",
        "999 B",
        "1.5 kB",
        "2.1 MB",
        "5.0 GB",
    ]


def test_a_sparkline_shows_the_newest_values_against_their_highest() -> None:
    assert formatting.sparkline([0, 0, 4, 8], 3) == "▁▅█"
    assert formatting.sparkline([0, 0], 8) == "▁▁"
    assert formatting.sparkline([], 8) == ""
    assert formatting.sparkline([1, 8], 8, "ascii").isascii()


def drawn(
    width: int, tables: dict[str, dict[str, Any]], encoding: str = "utf-8", rates: int = 3, **streams: Any
) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=out, width=width, force_terminal=False, highlight=False)
    screen = Screen(None, console, "Ctrl-C stops", {})  # type: ignore[arg-type]
    for rate in ([1.0, 5.0, 45_678.9] * rates)[:rates]:
        for name in tables:
            screen._rates[name].append(rate)
    console.print(screen.drawn(RunStatus.read({"app": "shop", "streams": streams, "tables": tables})))
    out.flush()
    return out.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [20, 40, 80, 117, 118, 200])
def test_the_screen_fits_its_width_and_tells_every_figure(width: int) -> None:
    orders = {"rows_per_second": 1_500.0, "recorded": 2_000, "rejected": 3}
    lines = drawn(width, {"region_totals": TABLE, "customers": EMPTY}, orders=orders)
    assert all(len(text) <= width for text in lines)
    whole = " ".join(" ".join(lines).split())
    for figure in ("45.7k", "1.23M", "9,999", "2.1 MB", "350 ms", "2 h 1 min", "40%", "3 files left"):
        assert figure in whole or width < 40, figure
    assert "stream orders 1,500 rows/s recorded 2,000 rejected 3" in whole


LARGE: dict[str, Any] = {
    **TABLE,
    "batch": 123_456,
    "rows": 987_654_321_000,
    "rows_per_second": 123_456_789.0,
    "batch_ms": 83_520_000,
    "keys": 45_678_901,
    "state_bytes": 123_456_789_000,
    "lag_seconds": 86_400.0 * 35 + 3_600 * 13,
    "late": 1_234_567,
    "rejected": 7_654_321,
    "duplicates": 55_555,
}


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("table", [TABLE, LARGE], ids=["usual", "large"])
def test_eight_tables_are_shown_without_a_number_cut_or_a_line_wasted(
    width: int, table: dict[str, Any]
) -> None:
    names = [f"customers_by_region_{number}" for number in range(8)]
    lines = drawn(width, dict.fromkeys(names, table))
    assert all(len(text) <= width for text in lines)
    assert "…" not in "".join(lines)
    figure = formatting.status_row("", TableStatus(**table))
    for name, value in (*figure.items(), ("done", "40%")):
        # The watermark is where there is room for it: how far behind it is says the same.
        rows = sum(value in text for text in lines)
        assert rows >= 8 or (name == "watermark" and rows == 0 and width >= 80), f"{name} {value}"
    assert len(lines) <= {40: 8 * 7, 80: 8 * 3, 120: 8 * 2, 200: 8 + 1}[width] + 2
    assert sum("█" in text for text in lines) >= (8 if width == 200 else 0)


def test_a_sparkline_gives_way_before_numbers_do() -> None:
    tables = {"region_totals": TABLE, "customers": TABLE}

    def bars(width: int) -> int:
        return sum(character in "▁▂▃▄▅▆▇█" for character in "".join(drawn(width, tables, rates=60)))

    at = [bars(width) for width in (200, 130, 125, 120)]
    assert at == sorted(at, reverse=True)
    assert at[0] == 32 > at[-1]


def test_the_screen_needs_no_character_that_the_terminal_lacks() -> None:
    assert any("45.7k" in text for text in drawn(120, {"region_totals": TABLE}, "ascii"))


def test_a_log_line_has_the_same_figures() -> None:
    text = line("region_totals", TableStatus(**TABLE))
    assert "batch 12 in 350 ms, 45.7k rows/s, 9,999 keys, state 2.1 MB" in text
    assert "watermark 2026-01-01T11:50:00Z, 0 late, 7 rejected, 40% done" in text
    assert line("customers", TableStatus(**EMPTY)).startswith("customers: batch - in -")


def test_a_log_line_of_topics_has_the_messages_left_and_not_what_the_next_batch_has_done() -> None:
    topics = {**TABLE, "files_left": None, "done": 0.0, "messages_left": 0}
    assert line("totals", TableStatus(**topics)).endswith("7 rejected")
    left = TableStatus(**{**topics, "messages_left": 12_345})
    assert line("totals", left).endswith("7 rejected, 12.3k messages left")


def test_what_is_left_is_reckoned_from_how_it_went() -> None:
    left = RemainingTime()
    assert left.estimate(0.1, 100.0) == ""
    assert left.estimate(0.11, 100.5) == ""
    assert left.estimate(0.3, 104.0) == ", about 14 s left"
    assert left.estimate(1.0, 120.0) == ""
    assert left.estimate(None, 121.0) == ""


def test_a_start_is_shown_by_the_seconds_its_steps_take() -> None:
    starting = Starting(Console(file=io.StringIO()), drawn=False)
    assert starting.progress(0.0) == (0.0, "starting")
    starting.tell("spark")
    begun = starting._steps["spark"]
    share, words = starting.progress(begun + 2.5)
    total = sum(seconds for step, (_, seconds) in STEPS.items() if step != "kernel")
    assert share == pytest.approx(2.5 / total)
    assert words == f"starting Spark, about {round(total - 2.5)} s left"
    # A step that takes longer than ever stays where it is, and the next one continues from its end.
    assert starting.progress(begun + 60)[0] == pytest.approx(5.0 / total)


def test_a_run_that_rejected_every_row_is_told_from_one_that_did_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rejected, fine, none = {"rows": 2, "all_rejected": True}, {"rows": 2}, {"rows": 0}

    def all_rejected(streams: list[dict[str, object]], tables: list[dict[str, object]]) -> bool:
        numbered = [{str(n): found for n, found in enumerate(kind)} for kind in (streams, tables)]
        return warn(RunStatus.read({"app": "shop", "streams": numbered[0], "tables": numbered[1]}))

    assert all_rejected([], [rejected, rejected])
    assert not all_rejected([], [rejected, fine])
    assert all_rejected([rejected], [none, none]), "no line of a stream parses"
    assert all_rejected([fine], [rejected, rejected]), "all tables reject what it has recorded"
    assert not all_rejected([rejected], [none, fine]), "a table has another stream"
    assert not all_rejected([], [none])
