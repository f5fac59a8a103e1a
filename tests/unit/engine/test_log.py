"""A table's log: manifests, parts, totals, what is kept and what goes, and followers."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.followers.follower import Follower
from keyfold.engine.log import manifest as manifests
from keyfold.engine.log import retention
from keyfold.engine.log.manifest import Manifest, Part, Reason
from keyfold.engine.log.retention import (
    Dropped,
    Totals,
    count_rows,
    drop_side_outputs,
    prune,
    prune_side_outputs,
    totals,
)
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import HomeUnusable
from tests.log_files import publish

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHANGES = pa.schema([("_op", pa.string()), ("k", pa.string())])
ROW = {"_op": "upsert", "k": "a"}
REJECTED = {"kind": "rejected", "reason": "r", "raw": "{}"}


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    return TableLog(tmp_path)


def changed(log: TableLog, batch: int, at: datetime | None = None) -> Manifest:
    return publish(log, batch, {"change": [ROW]}, schema=CHANGES, at=at)


class TestManifest:
    def test_it_is_read_back_as_it_was_written(self) -> None:
        part = Part("data/7-ab/part-change.parquet", "change", 2, 100, "crc32:00000000")
        counts = {"change": 2, "late": 0, "rejected": 3, "duplicate": 0, "dropped_partial": 7}
        reasons = (Reason("key ... is null", 3, "key 1 is null"),)
        made = Manifest(7, 2, NOW, NOW - timedelta(hours=1), counts, (part,), reasons, ({"logOffset": 3},))
        assert manifests.decode(made.encode(), "7.json") == made
        assert json.loads(made.encode())["layout"] == 1

    @pytest.mark.parametrize("content", [b"", b'{"layout": 1', b"[]", b'{"layout": 1, "batch": 7}', b"\xff"])
    def test_one_that_is_torn_is_named(self, content: bytes) -> None:
        with pytest.raises(HomeUnusable, match=r"7\.json is damaged"):
            manifests.decode(content, "log/7.json")

    def test_one_of_another_layout_is_refused(self) -> None:
        with pytest.raises(HomeUnusable, match="layout 99, and this version of keyfold reads layout 1"):
            manifests.decode(b'{"layout": 99}', "log/7.json")

    def test_a_manifest_is_created_once(self, tmp_path: Path) -> None:
        assert TableLog(tmp_path).storage.put_new("7.json", b"first")
        assert not TableLog(tmp_path).storage.put_new("7.json", b"second")
        assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"first"]


class TestReading:
    def test_batches_come_in_the_order_of_their_numbers(self, log: TableLog) -> None:
        for batch in (10, 9, 2, 100):
            changed(log, batch)
        assert log.batches() == [2, 9, 10, 100]
        assert log.newest() == 100
        assert [manifest.batch for manifest in log.after(9)] == [10, 100]

    def test_a_log_that_does_not_exist_has_no_batches(self, tmp_path: Path) -> None:
        log = TableLog(tmp_path / "none")
        assert (log.batches(), log.newest(), log.find(0), count_rows(log)) == ([], None, None, {})

    def test_a_part_that_is_not_as_it_was_is_named(self, log: TableLog) -> None:
        (part,) = changed(log, 3).parts
        path, content = log.storage.root / part.path, (log.storage.root / part.path).read_bytes()
        assert [batch.to_pylist() for batch in log.part_rows(part)] == [[ROW]]
        log.verify(part)
        path.write_bytes(content[:-1])
        with pytest.raises(HomeUnusable, match=r"part-change\.parquet is damaged: it has"):
            list(log.part_rows(part))
        path.write_bytes(content[:10] + bytes([content[10] ^ 1]) + content[11:])
        with pytest.raises(HomeUnusable, match="its checksum is crc32:"):
            log.verify(part)
        path.write_bytes(b"x" * len(content))
        with pytest.raises(HomeUnusable, match=r"part-change\.parquet is damaged"):
            list(log.part_rows(part))
        path.unlink()
        for read in (lambda: list(log.part_rows(part)), lambda: log.verify(part)):
            with pytest.raises(HomeUnusable, match="the file is missing"):
                read()


class TestRetention:
    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retention, "NEWEST", 2)

    def test_what_all_have_read_goes_and_stays_counted(self, log: TableLog) -> None:
        for batch in range(6):
            changed(log, batch)
        assert prune(log, read_upto=3) == 3
        assert log.batches() == [4, 5]
        assert sorted(path.name for path in (log.storage.root / "data").iterdir()) == ["4-test", "5-test"]
        assert totals(log) == Totals(
            3, {"change": 4, "late": 0, "rejected": 0, "duplicate": 0, "dropped_partial": 0}
        )
        assert count_rows(log)["change"] == 6
        assert prune(log, read_upto=5) == 3, "the newest stay whoever has read them"

    def test_what_a_reader_has_not_read_stays(self, log: TableLog) -> None:
        for batch in range(6):
            changed(log, batch)
        assert prune(log, read_upto=-1) == -1
        assert log.batches() == [0, 1, 2, 3, 4, 5]
        assert totals(log) == Totals()

    def test_history_keeps_what_is_younger(self, log: TableLog) -> None:
        for batch in range(6):
            changed(log, batch, at=datetime.now(UTC) - timedelta(hours=6 - batch))
        assert prune(log, read_upto=5, history=timedelta(hours=4.5)) == 1
        assert log.batches() == [2, 3, 4, 5]

    def test_side_outputs_stay_when_changes_go(self, log: TableLog) -> None:
        for batch in range(6):
            publish(
                log, batch, {"change": [ROW], "rejected": [REJECTED] if batch == 1 else []}, schema=CHANGES
            )
        prune(log, read_upto=5)
        assert log.batches() == [1, 4, 5]
        found = log.find(1)
        assert found is not None
        assert [batch.to_pylist()[0]["raw"] for batch in log.rows(found, "rejected")] == ["{}"]
        assert not (log.storage.root / found.of_kind("change")[0].path).exists()
        assert count_rows(log)["rejected"] == 1

    def test_side_outputs_go_when_asked_for_and_stay_counted(self, log: TableLog) -> None:
        for batch in range(6):
            publish(log, batch, {"rejected": [REJECTED]}, at=datetime.now(UTC) - timedelta(hours=6 - batch))
        prune(log, read_upto=5)
        (part,) = (log.find(0) or pytest.fail("it is there")).parts
        assert prune_side_outputs(log, timedelta(hours=5.5)) == (1, part.bytes)
        assert log.batches() == [1, 2, 3, 4, 5]
        assert prune_side_outputs(log)[0] == 3, "the newest stay"
        assert count_rows(log)["rejected"] == 6

    def test_one_kind_of_side_output_goes_and_the_others_stay(self, log: TableLog) -> None:
        late = {**REJECTED, "kind": "late"}
        for batch in range(6):
            rows = {"late": [late, late], "rejected": [REJECTED] if batch == 1 else []}
            publish(log, batch, rows, at=datetime.now(UTC) - timedelta(hours=6 - batch))
        assert drop_side_outputs(log, "late") == Dropped(), "nobody has read the changes"
        prune(log, read_upto=5)
        assert drop_side_outputs(log, "duplicate") == Dropped()
        first = drop_side_outputs(log, "late", timedelta(hours=5.5))
        assert (first.batches, first.rows, first.bytes > 0) == (1, 2, True)
        assert log.batches() == [1, 2, 3, 4, 5]
        assert drop_side_outputs(log, "late").rows == 6, "the newest stay"
        assert log.batches() == [1, 4, 5]
        found = log.find(1)
        assert found is not None
        assert [part.kind for part in found.parts] == ["rejected"]
        assert [batch.to_pylist()[0]["raw"] for batch in log.rows(found, "rejected")] == ["{}"]
        assert sorted(file.name for file in (log.storage.root / "data/1-test").iterdir()) == [
            "part-rejected.parquet"
        ]
        assert count_rows(log) == Counter(late=12, rejected=1)

    def test_a_kill_before_files_are_removed_counts_no_batch_twice(self, log: TableLog) -> None:
        for batch in range(6):
            changed(log, batch)
        content = {"layout": 1, "upto": 3, "counts": {"change": 4}}
        (log.storage.root / "totals.json").write_text(json.dumps(content))
        assert count_rows(log)["change"] == 6

    def test_totals_that_are_torn_are_named(self, log: TableLog) -> None:
        (log.storage.root / "totals.json").write_text('{"layout": 1, "up')
        with pytest.raises(HomeUnusable, match=r"totals\.json is damaged"):
            count_rows(log)


class Noting(Follower):
    """Notes the batches that it applies, after calling `before`."""

    def __init__(self, log: TableLog, position: int = -1, before: Callable[[Manifest], None] | None = None):
        super().__init__("noting", "t", log, position)
        self.applied: list[int] = []
        self._before = before or (lambda _: None)

    def apply(self, manifest: Manifest) -> None:
        self._before(manifest)
        self.applied.append(manifest.batch)


class TestFollower:
    def test_it_begins_after_its_position_and_goes_on_with_what_is_offered(self, log: TableLog) -> None:
        for batch in range(3):
            changed(log, batch)
        follower = Noting(log, position=0)
        follower.start()
        follower.offer(changed(log, 7))
        assert follower.wait_for(7, seconds=10)
        follower.offer(changed(log, 8))
        follower.close(10)
        assert follower.applied == [1, 2, 7, 8]
        assert follower.position == 8

    def test_those_who_wait_get_the_error_that_stopped_it(self, log: TableLog) -> None:
        def fail(manifest: Manifest) -> None:
            if manifest.batch == 1:
                raise OSError("no space left")

        follower = Noting(log, before=fail)
        follower.start()
        for batch in range(3):
            follower.offer(changed(log, batch))
        with pytest.raises(OSError, match="no space left"):
            follower.wait_for(2, seconds=10)
        with pytest.raises(OSError, match="no space left"):
            follower.check()
        follower.close(10)
        assert follower.applied == [0]
        assert Noting(log, position=follower.position)._due[0].batch == 1, "and the next start begins there"

    def test_waiting_ends_when_time_is_over(self, log: TableLog) -> None:
        released = threading.Event()
        follower = Noting(log, before=lambda _: released.wait(30) and None)
        follower.start()
        follower.offer(changed(log, 0))
        assert not follower.wait_for(0, seconds=0.01)
        released.set()
        assert follower.wait_for(0, seconds=10)
        follower.close(10)
