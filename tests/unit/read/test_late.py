"""Late rows as they are read back, and the tables that have them."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path

import pytest

from keyfold.engine.storage.layout import TableHome
from keyfold.errors import QueryError
from keyfold.read import late
from keyfold.read.names import Names
from keyfold.read.side_rows import Window
from tests.late_rows import MINUTE, START, micros, put, said


@pytest.fixture
def home(tmp_path: Path) -> TableHome:
    """Three late rows in two batches; the watermark was at minute 90."""
    home, watermark = TableHome(tmp_path / "per_minute"), START + MINUTE * 90
    put(home, 3, said("a", START + MINUTE, watermark), said("b", START + MINUTE * 2, watermark))
    put(home, 12, said("c", START + MINUTE * 60, watermark))
    return home


class TestRows:
    def test_a_row_says_how_late_it_was_and_what_it_missed(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 3, said('{"id": 1}', START + MINUTE * 2, START + MINUTE * 3, missed=2))
        (row,) = late.rows(home)
        document = row.document()
        assert document.pop("at").tzinfo is not None
        assert document == {
            "batch": 3,
            "reason": "its window is closed",
            "raw": '{"id": 1}',
            "stream": "orders",
            "time": START + MINUTE + timedelta(microseconds=500_001),
            "watermark": START + MINUTE * 3,
            "late_by": 60.0,
            "missed": 2,
            "windows": [
                {"window_start": START, "window_end": START + MINUTE},
                {"window_start": START + MINUTE, "window_end": START + MINUTE * 2},
            ],
        }

    def test_it_is_read_back_with_times_in_utc(self, home: TableHome) -> None:
        first, *_ = rows = list(late.rows(home))
        assert [row.raw for row in rows] == ["a", "b", "c"]
        assert first.time == START + timedelta(microseconds=500_001)
        assert first.watermark == START + MINUTE * 90
        assert first.windows == (Window(START, START + MINUTE),)
        assert {getattr(first, name).tzinfo for name in ("at", "time", "watermark")} == {UTC}
        assert getattr(first.windows[0].end, "tzinfo", None) is UTC
        assert [row.raw for row in late.rows(home, [12])] == ["c"]

    def test_without_a_watermark_nobody_knows_how_late(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 0, said("a", START, None), said("b", START, START))
        assert [row.late_by for row in late.rows(home)] == [None, 0.0]

    def test_a_time_beyond_pythons_years_stays_text(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 0, said("a", START, START, event_time=-(10**17)))
        (row,) = late.rows(home)
        assert str(row.time).startswith("-1199-02-15T")

    def test_of_more_windows_than_are_listed_the_newest_counts(self, tmp_path: Path) -> None:
        home, watermark = TableHome(tmp_path), START + MINUTE * 500
        starts = [START + MINUTE * n for n in range(100)]
        listed = [{"start": micros(start), "end": micros(start + MINUTE * 60)} for start in starts]
        put(home, 0, said("a", START + MINUTE * 259, watermark, windows=listed, missed=200))
        assert [row.late_by for row in late.rows(home)] == [(500 - 259) * 60.0]


NAMES = Names(
    "shop", {"per_minute": ["orders"], "visits": ["orders", "clicks"]}, ["orders", "clicks", "unread"]
)


class TestNames:
    def test_a_table_is_found_whatever_its_case(self) -> None:
        assert NAMES.table_with_late_rows("Per_Minute") == "per_minute"

    def test_a_stream_has_no_late_rows_but_its_tables_have(self) -> None:
        with pytest.raises(QueryError, match="late rows are kept per table") as caught:
            NAMES.table_with_late_rows("orders")
        assert caught.value.hint == "a table that reads it: per_minute, visits"
        with pytest.raises(QueryError, match="no table reads this stream"):
            NAMES.table_with_late_rows("unread")

    def test_an_unknown_table_suggests_a_near_one(self) -> None:
        with pytest.raises(QueryError, match="did you mean 'visits'") as caught:
            NAMES.table_with_late_rows("visit")
        assert caught.value.reason == "not_found"

    def test_a_stream_that_only_tables_know_has_its_readers(self) -> None:
        found = Names("shop", {"totals": ["Old"]}, ["orders"])
        assert (found.stream("OLD"), found.readers("old"), found.stream("none")) == ("OLD", ["totals"], None)
        assert (found.stream("ORDERS"), found.table("Totals")) == ("orders", "totals")
