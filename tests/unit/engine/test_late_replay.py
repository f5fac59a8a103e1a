"""Late rows on disk: what is written, what is read back, and what a replay sends, once."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import keyfold as kf
from keyfold.engine.batch import late_replay
from keyfold.engine.handle import Handle
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.lookups.registry import Lookups
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import QueryError, RunError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.views.none import NoViews
from tests.log_files import publish

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR_MS = 3_600_000


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def said(raw: str, end: datetime, watermark: datetime | None, missed: int = 1, **late: Any) -> dict[str, Any]:
    """What the kernel says of a row whose newest missed window of a minute ended then."""
    starts = [end - MINUTE * (n + 1) for n in reversed(range(missed))]
    return {
        "kind": "late",
        "reason": "its window is closed",
        "raw": raw,
        "stream": "orders",
        "event_time": micros(end - MINUTE) + 500_001,
        "watermark": None if watermark is None else micros(watermark),
        "missed": missed,
        "last_end": micros(end),
        "windows": [{"start": micros(start), "end": micros(start + MINUTE)} for start in starts],
        **late,
    }


def put(home: TableHome, batch: int, *rows: dict[str, Any]) -> None:
    publish(TableLog(home.log), batch, {"late": rows})


def sent(home: TableHome, batch: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in late_replay.replay_file(home, batch).read_text("utf-8").splitlines()]


def identities(home: TableHome) -> dict[Path, tuple[int, int]]:
    """Which files are there, by what changes when one is written anew."""
    return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (home.path / "side").iterdir()}


@pytest.fixture
def home(tmp_path: Path) -> TableHome:
    """Three late rows in two batches; their windows ended at minutes 1, 2 and 60, the watermark was at 90."""
    home, watermark = TableHome(tmp_path / "per_minute"), START + MINUTE * 90
    put(home, 3, said("a", START + MINUTE, watermark), said("b", START + MINUTE * 2, watermark))
    put(home, 12, said("c", START + MINUTE * 60, watermark))
    return home


class TestFiles:
    def test_a_row_says_how_late_it_was_and_what_it_missed(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 3, said('{"id": 1}', START + MINUTE * 2, START + MINUTE * 3, missed=2))
        (row,) = late_replay.read(home)
        assert row.pop("at").tzinfo is not None
        assert row == {
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
        first, *_ = rows = list(late_replay.read(home))
        assert [row["raw"] for row in rows] == ["a", "b", "c"]
        assert first["time"] == START + timedelta(microseconds=500_001)
        assert first["watermark"] == START + MINUTE * 90
        assert first["windows"] == [{"window_start": START, "window_end": START + MINUTE}]
        assert {first[name].tzinfo for name in ("at", "time", "watermark")} == {UTC}
        assert first["windows"][0]["window_end"].tzinfo is UTC
        assert [row["raw"] for row in late_replay.read(home, [12])] == ["c"]

    def test_without_a_watermark_nobody_knows_how_late(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 0, said("a", START, None), said("b", START, START))
        assert [row["late_by"] for row in late_replay.read(home)] == [None, 0.0]

    def test_a_time_beyond_pythons_years_stays_text(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        put(home, 0, said("a", START, START, event_time=-(10**17)))
        (row,) = late_replay.read(home)
        assert row["time"].startswith("-1199-02-15T")

    def test_of_more_windows_than_are_listed_the_newest_counts(self, tmp_path: Path) -> None:
        home, watermark = TableHome(tmp_path), START + MINUTE * 500
        starts = [START + MINUTE * n for n in range(100)]
        listed = [{"start": micros(start), "end": micros(start + MINUTE * 60)} for start in starts]
        put(home, 0, said("a", START + MINUTE * 259, watermark, windows=listed, missed=200))
        assert [row["late_by"] for row in late_replay.read(home)] == [(500 - 259) * 60.0]


TABLES = {"per_minute": ["orders"], "visits": ["orders", "clicks"]}
STREAMS = ["orders", "clicks", "unread"]


class TestNames:
    def test_a_table_is_found_whatever_its_case(self) -> None:
        assert late_replay.table_of("shop", "Per_Minute", TABLES, STREAMS) == "per_minute"

    def test_a_stream_has_no_late_rows_but_its_tables_have(self) -> None:
        with pytest.raises(QueryError, match="late rows are kept per table") as caught:
            late_replay.table_of("shop", "orders", TABLES, STREAMS)
        assert caught.value.hint == "a table that reads it: per_minute, visits"
        with pytest.raises(QueryError, match="no table reads this stream"):
            late_replay.table_of("shop", "unread", TABLES, STREAMS)

    def test_an_unknown_table_suggests_a_near_one(self) -> None:
        with pytest.raises(QueryError, match="did you mean 'visits'") as caught:
            late_replay.table_of("shop", "visit", TABLES, STREAMS)
        assert caught.value.reason == "not_found"

    def test_a_handle_reads_the_late_rows_of_a_table(self, tmp_path: Path) -> None:
        app = kf.App("shop")
        orders = app.stream("orders", kf.rows([]), schema="region string")
        orders.by("region").table("totals", n="count(*)")
        place = AppHome(tmp_path / "shop")
        put(place.table("totals"), 3, said("a", START, START))
        handle = Handle(
            SharedStreams(app.spec()),
            cast(Any, None),
            place,
            cast(Any, None),
            NoViews(),
            Lookups(cast(Any, None), None),
        )
        assert [row["raw"] for row in handle.late("totals")] == ["a"]
        with pytest.raises(QueryError, match="a table that reads it: totals"):
            handle.late("orders")
        with pytest.raises(QueryError, match="no table total in app shop"):
            handle.late("total")


class TestReplay:
    def test_rows_are_sent_once_however_often_it_is_run(self, home: TableHome) -> None:
        assert late_replay.replay(home, HOUR_MS, None) == late_replay.Replayed(sent=3)
        watermark, half = micros(START + MINUTE * 90), 500_001
        assert sent(home, 3) == [
            {"raw": "a", "time_us": micros(START) + half, "watermark_us": watermark},
            {"raw": "b", "time_us": micros(START + MINUTE) + half, "watermark_us": watermark},
        ]
        before = identities(home)
        assert [file.name for file in sorted(before)] == [
            "replay-000000000003.json",
            "replay-000000000012.json",
        ]
        assert late_replay.replay(home, HOUR_MS, None) == late_replay.Replayed(sent_before=3)
        assert identities(home) == before

    def test_only_rows_whose_newest_window_is_kept_are_sent(self, home: TableHome) -> None:
        # A window that ended at minute 1 is gone when the watermark is a whole hour after it.
        watermark = START + MINUTE * 61
        assert late_replay.replay(home, HOUR_MS, watermark) == late_replay.Replayed(sent=2, no_longer_kept=1)
        assert [row["raw"] for row in sent(home, 3)] == ["b"]
        assert [batch.replayed for batch in late_replay.batches_of(home)] == ["partly-expired", "yes"]
        # What is sent stays sent, and what is gone stays gone, whatever the watermark is then.
        again = late_replay.replay(home, HOUR_MS, watermark - MINUTE * 30)
        assert again == late_replay.Replayed(sent_before=2, no_longer_kept=1)

    def test_a_batch_of_which_nothing_is_kept_leaves_no_file(self, home: TableHome) -> None:
        done = late_replay.replay(home, HOUR_MS, START + timedelta(days=1))
        assert done == late_replay.Replayed(no_longer_kept=3)
        assert not (home.path / "side").exists()
        assert [batch.replayed for batch in late_replay.batches_of(home)] == ["no", "no"]

    def test_rows_that_were_late_before_they_came_to_a_window_are_told_apart(self, tmp_path: Path) -> None:
        home, watermark = TableHome(tmp_path), START + MINUTE * 90
        put(home, 0, said("a", START, None, missed=0))
        put(home, 1, said("b", START, watermark, missed=0), said("c", START + MINUTE * 60, watermark))
        done = late_replay.replay(home, HOUR_MS, watermark)
        assert done == late_replay.Replayed(sent=1, not_replayable=2)
        assert [batch.replayed for batch in late_replay.batches_of(home)] == ["no", "partly"]
        assert late_replay.replay(home, HOUR_MS, watermark) == late_replay.Replayed(
            sent_before=1, not_replayable=2
        )

    def test_some_batches_alone(self, home: TableHome) -> None:
        assert late_replay.replay(home, HOUR_MS, None, [12]) == late_replay.Replayed(sent=1)
        assert [(b.batch, b.rows, b.late_by, b.replayed) for b in late_replay.batches_of(home)] == [
            (3, 2, 89 * 60.0, "no"),
            (12, 1, 30 * 60.0, "yes"),
        ]
        with pytest.raises(QueryError, match="batch 4 has no late rows") as caught:
            late_replay.replay(home, HOUR_MS, None, [3, 4])
        assert caught.value.hint == "batches with late rows: 3, 12"
        assert not late_replay.replay_file(home, 3).exists()

    def test_a_batch_under_way_is_left_for_later(self, home: TableHome) -> None:
        assert late_replay.replay(home, HOUR_MS, None, upto=3) == late_replay.Replayed(sent=2, under_way=1)
        assert late_replay.replay(home, HOUR_MS, None, upto=12) == late_replay.Replayed(sent=1, sent_before=2)

    def test_a_table_without_late_rows_has_nothing_to_send(self, tmp_path: Path) -> None:
        home = TableHome(tmp_path)
        assert late_replay.replay(home, HOUR_MS, None) == late_replay.Replayed()
        assert not (home.path / "side").exists()

    def test_any_text_comes_back_as_it_was(self, tmp_path: Path) -> None:
        home, raw = TableHome(tmp_path), 'a\u2028b\r\n"ä\x00'
        put(home, 0, said(raw, START, START))
        late_replay.replay(home, HOUR_MS, None)
        assert late_replay.replay_file(home, 0).read_bytes().count(b"\n") == 1
        assert [row["raw"] for row in sent(home, 0)] == [raw]

    def test_several_at_once_send_each_batch_once(self, tmp_path: Path) -> None:
        home, together = TableHome(tmp_path), threading.Barrier(8)
        for batch in range(20):
            put(home, batch, *(said(f"{batch}-{n}", START, START) for n in range(50)))
        done: list[late_replay.Replayed] = []

        def run() -> None:
            together.wait()
            done.append(late_replay.replay(home, HOUR_MS, None))

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(done, late_replay.Replayed()) == late_replay.Replayed(sent=1000, sent_before=7000)
        assert len(list((home.path / "side").iterdir())) == 20
        assert [row["raw"] for row in sent(home, 7)] == [f"7-{n}" for n in range(50)]

    def test_an_app_that_starts_meanwhile_sweeps_nothing_away_for_good(self, home: TableHome) -> None:
        swept = 0

        def sweep(point: FaultPoint, _: dict[str, Any]) -> None:
            nonlocal swept
            if point == FaultPoint.STORAGE_WRITTEN and swept < 2:
                swept += 1
                home.sweep()

        with handled_by(sweep):
            assert late_replay.replay(home, HOUR_MS, None) == late_replay.Replayed(sent=3)
            assert swept == 2
            swept = -100
            for file in (home.path / "side").iterdir():
                file.unlink()
            with pytest.raises(RunError, match="run it again"):
                late_replay.replay(home, HOUR_MS, None)
        assert list((home.path / "side").iterdir()) == []

    def test_a_replay_that_is_killed_leaves_nothing_that_counts(self, home: TableHome) -> None:
        def kill(point: FaultPoint, _: dict[str, Any]) -> None:
            if point == FaultPoint.STORAGE_FLUSHED:
                raise KeyboardInterrupt

        with handled_by(kill), pytest.raises(KeyboardInterrupt):
            late_replay.replay(home, HOUR_MS, None)
        assert list((home.path / "side").iterdir()) == []
        assert late_replay.replay(home, HOUR_MS, None) == late_replay.Replayed(sent=3)
