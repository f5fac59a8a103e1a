"""The growth that recorded sizes show, and how they are recorded."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keyfold.cli.reports import size_forecast as shown
from keyfold.engine.status.size_forecast import forecast
from keyfold.engine.status.size_history import SizeHistory, thin
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.read import trends
from keyfold.read.metrics import RunStatus, TableStatus
from keyfold.read.trends import Sample

AT = datetime(2026, 1, 1, tzinfo=UTC)


def samples(minutes: int, per_hour: float, noise: float = 0.0, first: int = 1000) -> list[Sample]:
    """A size a minute."""
    chance = random.Random(7)
    return [
        Sample(
            AT.timestamp() + 60 * n,
            n,
            first + round(per_hour / 60 * n),
            first * 100 + round(per_hour * 100 / 60 * n + chance.uniform(-noise, noise)),
        )
        for n in range(minutes)
    ]


def test_steady_growth_is_found_again() -> None:
    found = forecast(samples(120, 600))
    assert found.rows is not None
    assert found.bytes is not None
    assert found.rows.per_hour == pytest.approx(600, rel=0.02)
    assert found.bytes.per_hour == pytest.approx(60_000, rel=0.02)
    assert found.bytes.now == samples(120, 600)[-1].bytes
    hours = found.bytes.hours_to(found.bytes.now + 600_000, found.bytes.per_hour)
    assert hours == pytest.approx(10, rel=0.02)
    assert found.bytes.hours_to(1, found.bytes.per_hour) == 0


def test_noise_widens_the_range_and_hardly_moves_the_median() -> None:
    quiet, noisy = forecast(samples(120, 600)).bytes, forecast(samples(120, 600, noise=20_000)).bytes
    assert quiet is not None
    assert noisy is not None
    assert noisy.per_hour == pytest.approx(quiet.per_hour, rel=0.15)
    assert noisy.low < quiet.low <= quiet.high < noisy.high


def test_a_jump_that_noise_makes_once_counts_little() -> None:
    found = samples(120, 600)
    found[60] = Sample(found[60].at, 60, 10**9, 10**9)
    growth = forecast(found).rows
    assert growth is not None
    assert growth.per_hour == pytest.approx(600, rel=0.05)


def test_a_state_that_does_not_grow_reaches_no_bound() -> None:
    found = forecast(samples(60, 0))
    assert found.bytes is not None
    assert found.bytes.per_hour == 0
    assert found.bytes.hours_to(10**12, found.bytes.per_hour) is None
    document = shown.as_json(found, 10**12)
    assert document["bound"]["at"] is None


@pytest.mark.parametrize(
    ("given", "said"),
    [([], "no size is recorded"), (samples(5, 1), "5 of at least 10 sizes are recorded, over 4 of")],
)
def test_too_little_history_says_so(given: list[Sample], said: str) -> None:
    found = forecast(given)
    assert found.rows is None
    assert found.bytes is None
    assert found.too_little is not None
    assert said in found.too_little


def test_a_table_that_was_reset_is_measured_from_then_on() -> None:
    before = samples(300, 60_000)
    after = [Sample(one.at + 20_000, one.batch, one.rows, one.bytes) for one in samples(60, 600)]
    found = forecast([*before, *after])
    assert found.samples == 60
    assert found.rows is not None
    assert found.rows.per_hour == pytest.approx(600, rel=0.05)


def status(at: datetime, batch: int | None, rows: int = 1) -> RunStatus:
    return RunStatus(at=at, tables={"totals": TableStatus(batch=batch, keys=rows, state_bytes=10 * rows)})


def test_a_running_app_records_one_size_a_minute_and_the_last(tmp_path: Path) -> None:
    home = AppHome(tmp_path)
    history = SizeHistory(home)
    history.add(status(AT, None))
    for second in range(0, 150, 10):
        history.add(status(AT + timedelta(seconds=second), second, second))
    history.add(status(AT + timedelta(seconds=150), 149, 149), last=True)
    assert [one.rows for one in trends.read(home)["totals"]] == [0, 60, 149]
    again = SizeHistory(home)
    again.add(status(AT + timedelta(days=1), 150, 150))
    assert [one.rows for one in trends.read(home)["totals"]] == [0, 60, 149, 150]


def test_a_damaged_file_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "sizes.json").write_text('{"tables": {"totals": [[1]]}}')
    assert trends.read(AppHome(tmp_path)) == {}


def test_of_many_samples_the_old_ones_are_thinned() -> None:
    found: list[Sample] = []
    for one in samples(5000, 1):
        found = thin([*found, one])
    assert len(found) <= 600
    assert found[0].batch == 0
    assert found[-1].batch == 4999
    assert sum(one.batch > 4700 for one in found) > 200


@pytest.mark.parametrize("text", ["", "0", "-5GB", "ten", "5 PB"])
def test_a_bound_that_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="not a size"):
        shown.bytes_of(text)


def test_sizes_are_read_as_people_write_them() -> None:
    assert [shown.bytes_of(text) for text in ("10GB", "1.5 mb", "7", "2g")] == [
        10**10,
        1_500_000,
        7,
        2 * 10**9,
    ]


def test_a_far_forecast_calls_itself_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    shown.show(forecast(samples(120, 600)), 10**9)
    out = capsys.readouterr().out
    assert "per day" in out
    assert "+14,400" in out
    assert "1.0 GB: in " in out
    assert "a guess" in out
