"""Lengths of time."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import BadDuration
from keyfold.plan.durations import millis, text

DAY = 86_400_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("30 days", 30 * DAY),
        ("500 ms", 500),
        ("1 hour 30 minutes", 5_400_000),
        ("1 hour, 30 minutes", 5_400_000),
        ("1 hour and 30 minutes", 5_400_000),
        ("1h30m", 5_400_000),
        ("2h", 7_200_000),
        ("10 minutes", 600_000),
        ("10 MINUTES", 600_000),
        ("1 week", 7 * DAY),
        ("1.5 hours", 5_400_000),
        ("  45 s ", 45_000),
        (timedelta(days=1, milliseconds=3), DAY + 3),
    ],
)
def test_a_length_of_time_is_read_as_milliseconds(value, expected):
    assert millis(value) == expected


@pytest.mark.parametrize("value", [0, 0.0, "0", "0 s", timedelta(0)])
def test_zero_is_read_where_it_is_allowed_and_refused_elsewhere(value):
    assert millis(value, "late", zero=True) == 0
    with pytest.raises(BadDuration, match="ttl must not be zero"):
        millis(value, "ttl")


@pytest.mark.parametrize("value", ["1 month", "2 years", "3 months 2 days", "1M", "1 yr"])
def test_months_and_years_are_refused_since_their_length_is_not_fixed(value):
    with pytest.raises(BadDuration, match="no fixed length"):
        millis(value)


@pytest.mark.parametrize("value", ["-1 day", "- 5 s", timedelta(days=-1), "-3"])
def test_negative_lengths_are_refused(value):
    with pytest.raises(BadDuration, match="must not be negative"):
        millis(value)


@pytest.mark.parametrize("value", [timedelta(microseconds=1), "1 us", "5 nanoseconds", "1.5 ms", "2 µs"])
def test_lengths_finer_than_a_millisecond_are_refused(value):
    with pytest.raises(BadDuration, match="finer than a millisecond"):
        millis(value)


@pytest.mark.parametrize("value", [5, 1.5, "5", " 5 "])
def test_numbers_without_a_unit_are_refused_and_a_unit_is_proposed(value):
    with pytest.raises(BadDuration, match=r"(?s)without a unit.*seconds"):
        millis(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "soon",
        "days",
        "1 day ago",
        "PT5M",
        "1 day 1 day",
        "1 2 days",
        None,
        True,
        [],
        "1e3 s",
        "\u0661 day",
    ],
)
def test_anything_else_is_refused(value):
    with pytest.raises(BadDuration) as refusal:
        millis(value, "ttl", where="shop.totals")
    assert str(refusal.value).startswith("ttl ")
    assert "where: shop.totals" in str(refusal.value)
    assert repr(value) in str(refusal.value)


def test_lengths_beyond_the_range_of_timestamps_are_refused():
    for value in (timedelta(days=999_999_999), "9999999999999999999 days"):
        with pytest.raises(BadDuration, match="longer than"):
            millis(value)


def test_a_misspelt_unit_is_suggested():
    with pytest.raises(BadDuration, match=r"(?s)unknown unit 'dayz'.*did you mean 'days?'"):
        millis("30 dayz")


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0, "0 ms"), (1, "1 ms"), (1000, "1 second"), (5_400_000, "1 hour 30 minutes"), (30 * DAY, "30 days")],
)
def test_a_length_is_shown_in_words(ms, expected):
    assert text(ms) == expected


@given(st.integers(min_value=1, max_value=10_000 * 365 * DAY))
def test_what_is_shown_is_read_back_the_same(ms):
    assert millis(text(ms)) == ms
    assert millis(timedelta(milliseconds=ms) if ms < 10**14 else text(ms)) == ms


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused_and_nothing_else(value):
    with suppress(BadDuration):
        assert millis(value, zero=True) >= 0
