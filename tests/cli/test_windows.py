"""rows by key and range of time, and the picture below them in a terminal; without a JVM."""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold.cli.terminal.sparklines import Trend
from keyfold.engine.storage.layout import AppHome
from keyfold.views.contract import ViewSchema
from tests.cli.conftest import AT, TOTALS, Cli, columns, make_app
from tests.cli.test_run import ENVIRONMENT, KEYFOLD

WINDOW = {"window_start": "timestamp", "window_end": "timestamp"}
PER_HOUR = ViewSchema(
    "per_hour", columns(region="string", **WINDOW), columns(n="long", mean="double", top="string")
)
HOUR = timedelta(hours=1)


def hours(region: str, *numbers: int | None) -> list[tuple[Any, ...]]:
    """A row for each hour from `AT` on."""
    return [
        (region, AT + HOUR * hour, AT + HOUR * (hour + 1), n, None if n is None else n / 2, "x")
        for hour, n in enumerate(numbers)
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("windows") / "home"
    rows = [*hours("eu", 1, 2, 3, 8), *hours("us", 5, 6)]
    make_app(AppHome(home / "shop"), {PER_HOUR: [rows], TOTALS: [[("eu", 1, 2.5)]]})
    return home


class TestRows:
    @pytest.mark.parametrize(
        ("words", "wanted"),
        [
            (["--key", "eu"], [1, 2, 3, 8]),
            (["--key", "us", "--since", "2026-01-01T13:00:00Z"], [6]),
            (["--key", "eu", "--since", "2026-01-01T13:30", "--until", "2026-01-01T15:00:00Z"], [2, 3]),
            (["--since", "2026-01-01", "--until", "2026-01-01T12:00:01Z"], [1, 5]),
            (["--key", "eu", "--where", "n > 2", "--order-by", "n desc"], [8, 3]),
            (["--key", "eu", "--key", "2026-01-01T14:00:00Z"], [3]),
            (["--key", "-5"], []),
            (["--since", "2026-01-02"], []),
        ],
    )
    def test_of_a_key_and_a_time(self, cli: Cli, home: Path, words: list[str], wanted: list[int]) -> None:
        found = cli("rows", "shop.per_hour", "--home", home, "--json", *words)
        assert [row["n"] for row in found.json] == wanted
        assert cli("rows", "per_hour", "--home", home, "--format", "csv", *words).out.count("\n") == 1 + len(
            wanted
        )

    def test_the_key_of_a_table_without_windows(self, cli: Cli, home: Path) -> None:
        assert len(cli("rows", "totals", "--key", "eu", "--home", home, "--json").json) == 1

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["totals", "--since", "2026-01-01"], "the table is not windowed"),
            (["totals", "--until", "2026-01-01"], "given: --until"),
            (["per_hour", "--since", "yesterday"], "--since is not a date or timestamp"),
            (
                ["per_hour", "--since", "2026-01-02", "--until", "2026-01-01"],
                "--since must be before --until",
            ),
            (["totals", "--key", "a", "--key", "b"], "the key has 1 part, 2 given"),
        ],
    )
    def test_what_does_not_fit_is_said(self, cli: Cli, home: Path, words: list[str], says: str) -> None:
        found = cli("rows", *words, "--home", home, "--json")
        assert (found.code, set(found.json)) == (2, {"error"})
        assert says in found.err

    def test_get_without_the_window_points_to_rows(self, cli: Cli, home: Path) -> None:
        found = cli("get", "per_hour", "eu", "--home", home)
        assert found.code == 2
        assert "also needs window_start and window_end" in found.err
        assert "keyfold rows per_hour --key eu" in found.err
        bounds = ("2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z")
        assert cli("get", "per_hour", "eu", *bounds, "--home", home, "--json").json["n"] == 1


def trend(*numbers: int | None) -> Trend:
    made = Trend(PER_HOUR)
    names = [column.name for column in (*PER_HOUR.keys, *PER_HOUR.columns)]
    rows = [dict(zip(names, row, strict=True)) for row in hours("eu", *numbers)]
    # In any order: what is shown first need not be the oldest.
    assert list(made.watch(iter(rows[::-1]))) == rows[::-1]
    return made


class TestTrend:
    def test_a_line_for_each_column_of_numbers_by_time(self) -> None:
        assert trend(1, 2, 3, 8).lines(80) == ["n     ▁▂▃█  1 to 8", "mean  ▁▂▃█  0.5 to 4"]

    def test_a_null_is_a_gap_and_numbers_may_be_negative(self) -> None:
        assert trend(-8, None, 0).lines(80)[0] == "n     ▁ █  -8 to 0"
        assert trend(None, None).lines(80) == ["n     no numbers", "mean  no numbers"]
        assert trend(5, 5, 5).lines(80)[0] == "n     ▁▁▁  5 to 5"

    def test_it_fits_its_width_with_the_newest(self) -> None:
        (first, _) = trend(*range(500)).lines(60)
        assert len(first) == 60
        assert first.endswith("█  0 to 499")
        assert trend(1, 8).lines(80, "ascii")[0].isascii()

    def test_one_window_makes_no_picture(self) -> None:
        assert trend(1).lines(80) == []
        assert trend().lines(80) == []

    def test_numbers_that_no_picture_can_hold(self) -> None:
        made = Trend(PER_HOUR)
        values = [float("nan"), float("inf"), 1.7e308, -1.7e308]
        rows = [{"window_start": AT + HOUR * n, "n": None, "mean": value} for n, value in enumerate(values)]
        far = {"window_start": "+12026-01-01T00:00:00Z", "n": 1, "mean": 1.0}
        list(made.watch(iter([*rows, far])))
        assert made.lines(80)[1].startswith("mean    ▁▁  -1.7e+308")


def terminal(home: Path, *words: str) -> str:
    """What a command shows in a terminal of 120 columns."""
    import pty

    from .test_terminal import pty_size

    parent, child = pty.openpty()
    pty_size(child, 120, 40)
    environment = {**ENVIRONMENT, "TERM": "xterm", "NO_COLOR": "1", "LANG": "C.UTF-8"}
    with subprocess.Popen(
        [*KEYFOLD, *words, "--home", str(home)], stdin=child, stdout=child, stderr=child, env=environment
    ):
        os.close(child)
        seen = b""
        try:
            while piece := os.read(parent, 4096):
                seen += piece
        except OSError:  # the other end is closed
            pass
    os.close(parent)
    return seen.decode()


def test_a_terminal_shows_the_numbers_of_one_key_below_its_rows(home: Path) -> None:
    shown = [line.strip() for line in terminal(home, "rows", "per_hour", "--key", "eu").splitlines()]
    assert shown[-2:] == ["n     ▁▂▃█  1 to 8", "mean  ▁▂▃█  0.5 to 4"]
    newest = terminal(home, "rows", "per_hour", "--key", "eu", "--order-by", "n desc", "--limit", "2")
    assert "n     ▁█  3 to 8" in newest


@pytest.mark.parametrize(
    "words", [["rows", "per_hour"], ["rows", "totals", "--key", "eu"], ["rows", "per_hour", "--json"]]
)
def test_no_picture_of_several_keys_or_of_no_windows(home: Path, words: list[str]) -> None:
    shown = terminal(home, *words)
    assert "eu" in shown
    assert "█" not in shown


def test_no_picture_where_there_is_no_terminal(cli: Cli, home: Path) -> None:
    found = cli("rows", "per_hour", "--key", "eu", "--home", home)
    assert len(found.out.splitlines()) == 6
