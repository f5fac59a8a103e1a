"""Late rows on disk: what is written, what is read back, and what a replay sends, once."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import keyfold as kf
from keyfold.engine.batch import late_replay
from keyfold.engine.handle import Handle
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.running import RunningApp
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import QueryError, RunError
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.read import late
from keyfold.views.none import NoViews
from tests.late_rows import MINUTE, START, micros, put, said

HOUR_MS = 3_600_000


def sent(home: TableHome, batch: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in late.replay_file(home, batch).read_text("utf-8").splitlines()]


def identities(home: TableHome) -> dict[Path, tuple[int, int]]:
    """Which files are there, by what changes when one is rewritten."""
    return {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (home.path / "side").iterdir()}


@pytest.fixture
def home(tmp_path: Path) -> TableHome:
    """Three late rows in two batches; their windows ended at minutes 1, 2 and 60, the watermark was at 90."""
    home, watermark = TableHome(tmp_path / "per_minute"), START + MINUTE * 90
    put(home, 3, said("a", START + MINUTE, watermark), said("b", START + MINUTE * 2, watermark))
    put(home, 12, said("c", START + MINUTE * 60, watermark))
    return home


class TestHandle:
    def test_a_handle_reads_the_late_rows_of_a_table(self, tmp_path: Path) -> None:
        app = kf.App("shop")
        orders = app.stream("orders", kf.rows([]), schema="region string")
        orders.by("region").table("totals", n="count(*)")
        home = AppHome(tmp_path / "shop")
        put(home.table("totals"), 3, said("a", START, START))
        none = cast(Any, None)
        running = RunningApp(SharedStreams(app.spec()), none, home, none, NoViews())
        handle = Handle(running, none, none)
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
        assert [batch.replayed for batch in late.batches_of(home)] == ["partly-expired", "yes"]
        # What is sent stays sent, and what is gone stays gone, whatever the watermark is then.
        again = late_replay.replay(home, HOUR_MS, watermark - MINUTE * 30)
        assert again == late_replay.Replayed(sent_before=2, no_longer_kept=1)

    def test_a_batch_of_which_nothing_is_kept_leaves_no_file(self, home: TableHome) -> None:
        done = late_replay.replay(home, HOUR_MS, START + timedelta(days=1))
        assert done == late_replay.Replayed(no_longer_kept=3)
        assert not (home.path / "side").exists()
        assert [batch.replayed for batch in late.batches_of(home)] == ["no", "no"]

    def test_rows_that_were_late_before_they_came_to_a_window_are_told_apart(self, tmp_path: Path) -> None:
        home, watermark = TableHome(tmp_path), START + MINUTE * 90
        put(home, 0, said("a", START, None, missed=0))
        put(home, 1, said("b", START, watermark, missed=0), said("c", START + MINUTE * 60, watermark))
        done = late_replay.replay(home, HOUR_MS, watermark)
        assert done == late_replay.Replayed(sent=1, not_replayable=2)
        assert [batch.replayed for batch in late.batches_of(home)] == ["no", "partly"]
        assert late_replay.replay(home, HOUR_MS, watermark) == late_replay.Replayed(
            sent_before=1, not_replayable=2
        )

    def test_some_batches_alone(self, home: TableHome) -> None:
        assert late_replay.replay(home, HOUR_MS, None, [12]) == late_replay.Replayed(sent=1)
        assert [(b.batch, b.rows, b.late_by, b.replayed) for b in late.batches_of(home)] == [
            (3, 2, 89 * 60.0, "no"),
            (12, 1, 30 * 60.0, "yes"),
        ]
        with pytest.raises(QueryError, match="batch 4 has no late rows") as caught:
            late_replay.replay(home, HOUR_MS, None, [3, 4])
        assert caught.value.hint == "batches with late rows: 3, 12"
        assert not late.replay_file(home, 3).exists()

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
        assert late.replay_file(home, 0).read_bytes().count(b"\n") == 1
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
