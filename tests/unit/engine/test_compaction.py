"""A log whose old batches were merged: every reader finds what it found before, whenever the process dies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold import fault_points
from keyfold.engine.log import compaction, retention
from keyfold.engine.log.compaction import Compaction, Merge
from keyfold.engine.log.log_writer import sweep
from keyfold.engine.log.manifest import KINDS, Kind
from keyfold.engine.log.retention import NEWEST, count_rows, drop_side_outputs, prune, prune_side_outputs
from keyfold.engine.log.table_log import ROWS_AT_ONCE, TableLog
from keyfold.engine.storage.layout import local_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.errors import HomeUnusable
from keyfold.fault_points import FaultPoint
from tests.log_files import publish

THEN = datetime(2026, 1, 1, tzinfo=UTC)
CHANGES = pa.schema(
    [
        ("_op", pa.string()),
        ("k", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(20, 3)),
        ("raw", pa.binary()),
        ("many", pa.list_(pa.field("element", pa.struct([("x", pa.int64()), ("y", pa.float64())])))),
        ("by", pa.map_(pa.string(), pa.date32())),
    ]
)
REJECTED = {"kind": "rejected", "reason": "r", "raw": "{}", "windows": []}


class Killed(BaseException):
    """Where a process is killed, nothing handles it."""


def change(batch: int, n: int) -> dict[str, Any]:
    return {
        "_op": "delete" if n % 5 == 4 else "upsert",
        "k": f"k{n}",
        "at": THEN + timedelta(seconds=batch),
        "amount": None if n % 3 == 0 else Decimal(batch) + Decimal("0.125"),
        "raw": bytes([batch % 256, 0]),
        "many": [{"x": n, "y": batch / 2}] * (n % 3),
        "by": [("a", THEN.date())] if n % 2 else [],
    }


def filled(log: TableLog, batches: int, first: int = 0) -> None:
    """Batches with changes, some without; one number is a gap, as after a resize."""
    previous = log.newest()
    for batch in range(first, first + batches):
        if batch == 7:
            continue
        rows: dict[Any, Any] = {"change": [change(batch, n) for n in range(batch % 4)]}
        if batch % 6 == 2:
            rows["rejected"] = [{**REJECTED, "raw": f"{batch}-{n}"} for n in range(2)]
        if batch % 9 == 3:
            rows["late"] = [{"kind": "late", "raw": str(batch), "windows": [{"start": 1, "end": 2}]}]
        at = datetime.now(UTC) - timedelta(hours=1000 - batch)
        publish(log, batch, rows, schema=CHANGES, at=at, previous=previous)
        previous = batch


def read(log: TableLog, after: int = -1) -> list[dict[str, Any]]:
    """All that followers and people can read of a log."""
    return [
        {
            **{name: value for name, value in manifest.document().items() if name != "parts"},
            "rows": {
                kind: [r for b in log.rows(manifest, kind, columns[kind]) for r in b.to_pylist()]
                for kind in KINDS
            },
        }
        for columns in [{kind: CHANGES.names if kind == "change" else None for kind in KINDS}]
        for manifest in log.after(after)
    ]


def files(log: TableLog) -> list[str]:
    root = log.storage.root
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    lease = Lease(local_app_home(tmp_path, "shop")).take()
    yield lease
    lease.release()


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    return TableLog(tmp_path / "log")


def compacted(log: TableLog, lease: Lease) -> list[Merge]:
    return list(Compaction(log, lease).run())


def test_what_is_read_stays_and_files_become_few(log: TableLog, lease: Lease) -> None:
    filled(log, 60)
    before, whole, part = read(log), files(log), read(log, 23)
    (merge,) = compacted(log, lease)
    assert (str(merge.of), merge.batches) == ("0-49", 49)
    for reader in (log, TableLog(log.storage.root)):
        assert read(reader) == before
        assert read(reader, 23) == part
    assert log.batches() == [row["batch"] for row in before]
    assert log.newest() == 59
    assert log.own_batches() == list(range(60 - NEWEST, 60))
    left = files(log)
    assert len(whole) - len(left) == merge.before.files - merge.after.files
    assert merge.after.files == 1 + 3, "one file of each kind"
    for manifest in log.after(-1):
        for one in manifest.parts:
            log.verify(one)
    assert compacted(log, lease) == [], "there is nothing left to merge"
    assert files(log) == left


def test_a_range_grows_until_it_is_full(log: TableLog, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_MOST_BATCHES", 40)
    filled(log, 30)
    compacted(log, lease)
    filled(log, 70, first=30)
    before = read(log)
    found = [str(merge.of) for merge in compacted(log, lease)]
    assert found == ["0-40", "41-80", "81-89"], "the first has a gap at 7"
    assert [str(of) for of in log.merged.ranges()] == found
    assert read(log) == before
    sweep(log)
    assert read(log) == before


def test_row_groups_and_batches_need_not_agree(log: TableLog, lease: Lease) -> None:
    schema = pa.schema([("_op", pa.string()), ("k", pa.int64())])
    for batch in range(NEWEST + 8):
        rows = [{"_op": "upsert", "k": batch * 10_000 + n} for n in range(ROWS_AT_ONCE * 2 // 5)]
        publish(log, batch, {"change": rows}, schema=schema)
    compacted(log, lease)
    for manifest in log.after(-1):
        found = [row["k"] for rows in log.rows(manifest, "change", ["k"]) for row in rows.to_pylist()]
        assert found == [manifest.batch * 10_000 + n for n in range(ROWS_AT_ONCE * 2 // 5)]


def test_batches_whose_changes_have_other_columns_are_not_merged_together(
    log: TableLog, lease: Lease
) -> None:
    filled(log, 20)
    other = CHANGES.append(pa.field("more", pa.int64()))
    for batch in range(20, 40):
        publish(log, batch, {"change": [{**change(batch, 1), "more": 1}]}, schema=other, previous=batch - 1)
    before = read(log)
    assert [str(merge.of) for merge in compacted(log, lease)] == ["0-19", "20-29"]
    assert read(log) == before


@pytest.mark.parametrize(
    "point",
    [
        FaultPoint.STORAGE_WRITTEN,
        FaultPoint.STORAGE_NAMED,
        FaultPoint.MERGE_WRITTEN,
        FaultPoint.MERGE_PUBLISHED,
        FaultPoint.MERGE_MANIFESTS_REMOVED,
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["first", "merged again"])
def test_a_process_that_is_killed_leaves_the_log_readable(
    log: TableLog, lease: Lease, point: FaultPoint, again: bool
) -> None:
    filled(log, 30)
    if again:
        compacted(log, lease)
        filled(log, 30, first=30)
    before = read(log)

    def kill(reached: FaultPoint, facts: dict[str, Any]) -> None:
        if reached == point and "lease" not in str(facts):
            raise Killed

    with fault_points.handled_by(kill), pytest.raises(Killed):
        compacted(log, lease)
    found = TableLog(log.storage.root)
    assert read(found) == before
    sweep(found)
    assert read(found) == before
    compacted(found, lease)
    assert read(found) == before
    left = files(found)
    listed = {part.path for manifest in found.after(-1) for part in manifest.parts}
    assert {name for name in left if name.endswith(".parquet")} == listed, "nothing is left over"
    assert len(found.merged.ranges()) == 1


def test_merged_batches_are_pruned_and_stay_counted(log: TableLog, lease: Lease) -> None:
    filled(log, 60)
    sums = count_rows(log)
    compacted(log, lease)
    assert prune(log, read_upto=20) == 20
    assert count_rows(log) == sums
    assert prune(log, read_upto=59) == 49
    assert count_rows(TableLog(log.storage.root)) == sums
    assert not list((log.storage.root / "merged").glob("*/part-change.parquet")), "the changes are gone"
    raws = [r["raw"] for m in log.after(-1) for rows in log.rows(m, "rejected") for r in rows.to_pylist()]
    assert len(raws) == sums["rejected"]
    compacted(log, lease)
    assert prune_side_outputs(log, timedelta(hours=2000)) == (0, 0)
    batches, size = prune_side_outputs(log)
    assert (batches, size > 0) == (49, True)
    assert log.batches() == list(range(50, 60))
    assert count_rows(log) == sums


def test_one_kind_of_side_output_of_merged_batches_goes(log: TableLog, lease: Lease) -> None:
    filled(log, 60)
    sums = count_rows(log)
    compacted(log, lease)
    prune(log, read_upto=59)
    kept = {kind: rows_of(log, kind) for kind in ("late", "rejected", "duplicate")}
    assert kept["late"]
    assert kept["rejected"]
    done = drop_side_outputs(log, "late")
    assert done.rows == len(kept["late"]) - len(rows_of(log, "late")) > 0
    assert rows_of(TableLog(log.storage.root), "rejected") == kept["rejected"]
    assert not list((log.storage.root / "merged").glob("*/part-late.parquet"))
    for manifest in log.after(-1):
        for part in manifest.parts:
            if part.kind != "change":
                log.verify(part)
    assert count_rows(log) == sums
    drop_side_outputs(log, "rejected")
    drop_side_outputs(log, "duplicate")
    assert log.batches() == list(range(50, 60)), "what has nothing left goes as a whole"


def rows_of(log: TableLog, kind: Kind) -> list[Any]:
    return [row for m in log.after(-1) for rows in log.rows(m, kind) for row in rows.to_pylist()]


def test_side_outputs_of_batches_whose_changes_are_gone_are_merged(log: TableLog, lease: Lease) -> None:
    filled(log, 60)
    prune(log, read_upto=59)
    before = [row["rows"]["rejected"] for row in read_side(log)]
    compacted(log, lease)
    assert [row["rows"]["rejected"] for row in read_side(log)] == before
    assert len(log.merged.ranges()) == 1


def read_side(log: TableLog) -> list[dict[str, Any]]:
    return [
        {"batch": m.batch, "rows": {"rejected": [r for b in log.rows(m, "rejected") for r in b.to_pylist()]}}
        for m in log.after(-1)
    ]


class TestMissingManifests:
    def test_one_in_the_middle_is_named(self, log: TableLog) -> None:
        filled(log, 12)
        log.file(9).delete()
        with pytest.raises(HomeUnusable, match=r"9\.json is damaged: the file is missing"):
            list(log.after(3))
        assert [m.batch for m in log.after(9)] == [10, 11], "whoever is past it does not need it"

    def test_a_gap_and_a_pruned_log_are_none(self, log: TableLog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retention, "NEWEST", 2)
        filled(log, 12)
        assert 7 not in [m.batch for m in log.after(-1)]
        prune(log, read_upto=4)
        assert [m.batch for m in log.after(-1) if m.batch > 4] == [5, 6, 8, 9, 10, 11]


def test_pruning_lists_nothing(log: TableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(log, 60)
    log.merged.ranges()
    listed: list[str] = []
    monkeypatch.setattr(type(log.storage), "list", lambda _, name="": listed.append(name) or [])
    assert prune(log, read_upto=59, history=timedelta(hours=970.5), newest=59) == 29
    assert listed == []
