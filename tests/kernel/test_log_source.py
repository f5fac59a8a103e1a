"""The kernel's source of changes: what it reads of a log, and what it says of one that is damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyfold.engine import session
from keyfold.engine.internal_columns import BATCH, POSITION
from keyfold.engine.log.change_frame import change_frame
from keyfold.engine.log.compaction import Compaction
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import local_app_home
from keyfold.engine.storage.lease import Lease
from keyfold.testing import shared_session
from tests.log_files import publish

pytestmark = pytest.mark.jvm

Row = dict[str, Any]
SCHEMA = pa.schema([("_op", pa.string()), ("k", pa.string()), ("n", pa.int64())])


def change(k: str, n: int) -> Row:
    return {"_op": "upsert", "k": k, "n": n}


@dataclass
class Log:
    """A table's log, written as its contract says."""

    path: Path

    @property
    def uri(self) -> str:
        return f"file://{self.path}"

    def publish(self, batch: int, *parts: list[Row]) -> list[Path]:
        """Writes a batch with these parts of changes, and announces it; returns the files of the parts."""
        listed = [self.part(f"data/{batch}-ab/part-change-{i:05d}.parquet", p) for i, p in enumerate(parts)]
        counts = {"change": sum(part["rows"] for part in listed)}
        self.write(f"{batch}.json", {"batch": batch, "parts": listed, "counts": counts})
        session.kernel(shared_session()).published(self.uri, batch)
        return [self.path / part["path"] for part in listed]

    def part(self, name: str, rows: list[Row]) -> Row:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
        return {"path": name, "kind": "change", "rows": len(rows), "bytes": file.stat().st_size}

    def write(self, name: str, document: Row) -> None:
        (self.path / name).write_text(json.dumps({"layout": 1, **document}))

    def prune(self, upto: int) -> None:
        self.write("totals.json", {"upto": upto, "counts": {}})
        for batch in range(upto + 1):
            (self.path / f"{batch}.json").unlink(missing_ok=True)


@dataclass
class Reader:
    """A query that reads a log, and what each of its batches has read."""

    log: Log
    home: Path
    options: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ("k", "n", BATCH, POSITION)
    batches: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def snapshot(self) -> Log:
        return Log(self.home / "snapshot")

    @contextmanager
    def running(self) -> Iterator[Any]:
        from pyspark.sql import DataFrame

        spark = shared_session()
        schema = json.dumps(
            {
                "type": "struct",
                "fields": [
                    {"name": name, "type": kind, "nullable": True, "metadata": {}}
                    for name, kind in (("_op", "string"), ("k", "string"), ("n", "long"), ("more", "integer"))
                ],
            }
        )
        api = session.kernel(spark)
        made = api.logChanges(spark._jsparkSession, self.log.uri, self.snapshot.uri, 7, schema, self.options)
        frame = DataFrame(made, spark).select(*self.columns)
        assert list(api.logUses(frame._jdf)) == [7]
        checkpoint = self.home / "checkpoint"
        query = (
            frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint)).start()
        )
        try:
            yield query
        finally:
            query.stop()

    def _take(self, frame: Any, batch: int) -> None:
        self.batches[batch] = sorted((tuple(row) for row in frame.collect()), key=lambda row: row[::-1])

    def read(self) -> dict[int, list[tuple[Any, ...]]]:
        """Runs the query until it has read all that there is; returns the batches of this run."""
        self.batches = {}
        with self.running() as query:
            query.processAllAvailable()
        return self.batches

    def failure(self) -> str:
        with pytest.raises(Exception, match="KEYFOLD") as error, self.running() as query:
            query.processAllAvailable()
        return str(error.value)

    def offset(self, batch: int) -> str:
        return (self.home / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[2]

    def uncommit(self, batch: int) -> None:
        for name in (str(batch), f".{batch}.crc"):
            (self.home / "checkpoint" / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    # Characters that URIs encode, since paths reach Spark as URIs.
    path = tmp_path / "a ü home" / "log"
    path.mkdir(parents=True)
    return Log(path)


@pytest.fixture
def reader(log: Log, tmp_path: Path) -> Reader:
    return Reader(log, tmp_path / "reader")


def test_each_change_is_read_once_with_its_batch_and_position(log: Log, reader: Reader) -> None:
    log.publish(0, [change("a", 1), change("b", 5)], [change("c", 9)])
    with reader.running() as query:
        query.processAllAvailable()
        assert reader.batches == {0: [("a", 1, 0, 0), ("c", 9, 0, 0), ("b", 5, 0, 1)]}
        log.publish(1, [change("a", 2)])
        log.publish(4, [change("a", 3)])
        query.processAllAvailable()
    assert reader.offset(0) == "0"
    assert [row for n in sorted(reader.batches) if n > 0 for row in reader.batches[n]] == [
        ("a", 2, 1, 0),
        ("a", 3, 4, 0),
    ]
    assert reader.read() == {}
    last = max(int(f.name) for f in (reader.home / "checkpoint" / "offsets").glob("[0-9]*"))
    assert reader.offset(last) == "4"
    reader.uncommit(last)
    assert reader.read()[last][-1] == ("a", 3, 4, 0), "the batch runs again with the same rows"


def test_a_batch_of_many_parts_is_read_whole_or_not_at_all(log: Log, reader: Reader) -> None:
    parts = log.publish(0, *([change(f"k{n}", n)] for n in range(20)))
    assert sorted(n for _, n, *_ in reader.read()[0]) == list(range(20))
    reader.uncommit(0)
    parts[13].unlink()
    assert f"{parts[13].name} is missing" in reader.failure()


def test_columns_that_are_not_asked_for_are_not_read(log: Log, tmp_path: Path) -> None:
    reader = Reader(log, tmp_path / "reader", columns=("n",))
    log.publish(0, [change("a", 1)])
    with reader.running() as query:
        query.processAllAvailable()
        plan = query._jsq.explainInternal(False)
    assert "ReadSchema: struct<n:bigint>" in plan
    assert reader.batches == {0: [(1,)]}


def test_a_column_that_a_part_does_not_have_is_null(log: Log, tmp_path: Path) -> None:
    reader = Reader(log, tmp_path / "reader", columns=("k", "more"))
    log.publish(0, [change("a", 1)])
    assert reader.read() == {0: [("a", None)]}


def test_batches_without_changes_are_nothing_to_a_reader(log: Log, reader: Reader) -> None:
    log.publish(0)
    log.publish(1)
    assert reader.read() == {}
    assert not list((reader.home / "checkpoint" / "offsets").glob("[0-9]*"))
    log.publish(2, [change("a", 1)])
    log.publish(3)
    assert reader.read() == {0: [("a", 1, 2, 0)]}
    assert reader.offset(0) == "3"


def test_a_batch_of_the_reader_is_limited(log: Log, tmp_path: Path) -> None:
    for batch in range(4):
        log.publish(batch, [change("a", batch), change("b", batch)])
    for name, options in (("rows", {"maxRowsPerTrigger": "5"}), ("batches", {"maxBatchesPerTrigger": "2"})):
        found = Reader(log, tmp_path / name, options).read()
        assert [len(rows) for rows in found.values()] == [4, 4]


def test_a_reader_that_begins_later_begins_with_a_snapshot(log: Log, reader: Reader) -> None:
    for batch in range(3):
        log.publish(batch, [change("a", batch)])
    log.prune(1)
    (reader.home / "snapshot").mkdir(parents=True)
    listed = reader.snapshot.part("1.parquet", [change("x", 10), change("y", 11)])
    reader.snapshot.write("snapshot.json", {"batch": 1, "parts": [listed]})
    with reader.running() as query:
        query.processAllAvailable()
        assert reader.batches == {0: [("x", 10, 1, 0), ("a", 2, 2, 0), ("y", 11, 1, 1)]}
    reader.uncommit(0)
    assert reader.read() == {0: [("x", 10, 1, 0), ("a", 2, 2, 0), ("y", 11, 1, 1)]}
    assert list(reader.snapshot.path.glob("*.parquet")), "the batch may have to run once more"
    with reader.running() as query:
        for batch in (3, 4, 5):
            log.publish(batch, [change("a", batch)])
            query.processAllAvailable()
    assert not list(reader.snapshot.path.glob("[0-9a-z]*"))
    log.publish(6, [change("a", 6)])
    assert [row for rows in reader.read().values() for row in rows] == [("a", 6, 6, 0)]


def test_an_empty_snapshot_still_says_where_to_begin(log: Log, reader: Reader) -> None:
    log.publish(0, [change("a", 1)])
    log.publish(1)
    log.prune(1)
    (reader.home / "snapshot").mkdir(parents=True)
    reader.snapshot.write("snapshot.json", {"batch": 1, "parts": []})
    assert reader.read() == {0: []}
    assert reader.offset(0) == "1"


def test_parts_of_a_batch_that_is_done_may_be_gone(log: Log, reader: Reader) -> None:
    for file in log.publish(0, [change("a", 1)]):
        assert reader.read() == {0: [("a", 1, 0, 0)]}
        file.unlink()
    log.publish(1, [change("a", 2)])
    log.prune(0)
    assert [row for rows in reader.read().values() for row in rows] == [("a", 2, 1, 0)]


def _gone(log: Log, part: Path) -> Path:
    part.unlink()
    return part


def _truncated(log: Log, part: Path) -> Path:
    part.write_bytes(part.read_bytes()[:-1])
    return part


def _overwritten(log: Log, part: Path) -> Path:
    part.write_bytes(b"x" * part.stat().st_size)
    return part


def _replaced(log: Log, part: Path) -> Path:
    """Another Parquet file, and a manifest that has its size and not its rows."""
    manifest = json.loads((log.path / "1.json").read_text())
    pq.write_table(pa.Table.from_pylist([change("a", 1), change("b", 2)], SCHEMA), part)
    manifest["parts"][0]["bytes"] = part.stat().st_size
    log.write("1.json", manifest)
    return part


def _torn(log: Log, part: Path) -> Path:
    manifest = log.path / "1.json"
    manifest.write_bytes(manifest.read_bytes()[:-10])
    return manifest


@pytest.mark.parametrize(
    ("damage", "how"),
    [
        (_gone, "is missing"),
        (_truncated, r"has \d+ bytes, and its log says \d+"),
        (_overwritten, "can't be read: "),
        (_replaced, "has 2 rows, and its log says 1"),
        (_torn, "is cut short or overwritten"),
    ],
)
def test_a_damaged_file_is_named(damage: Any, how: str, log: Log, reader: Reader) -> None:
    import re
    from urllib.parse import unquote

    log.publish(0, [change("a", 0)])
    reader.read()
    (part,) = log.publish(1, [change("a", 1)])
    file = damage(log, part)
    found = re.search(r"\[KEYFOLD_LOG_DAMAGED\] (\S+) (.*)", reader.failure())
    assert found is not None
    assert unquote(found[1]) == f"file:{file}"
    assert re.match(how, found[2])


def test_a_manifest_that_is_gone_when_its_batch_runs_again_is_named(log: Log, reader: Reader) -> None:
    log.publish(0, [change("a", 0)])
    reader.read()
    reader.uncommit(0)
    (log.path / "0.json").unlink()
    assert "/0.json is missing" in reader.failure()
    log.prune(0)
    assert "[KEYFOLD_LOG_PRUNED]" in reader.failure()


def test_a_log_that_was_pruned_past_its_reader_is_refused(log: Log, reader: Reader) -> None:
    log.publish(0, [change("a", 0)])
    reader.read()
    for batch in (1, 2, 3):
        log.publish(batch, [change("a", batch)])
    log.prune(2)
    assert "begins after batch 2, needed 1" in reader.failure()


def test_merged_batches_are_read_like_others(tmp_path: Path) -> None:
    log = TableLog(tmp_path / "log")

    def published(batches: range) -> None:
        for batch in batches:
            rows = [change(f"k{n}", batch * 10 + n) for n in range(batch % 4)]
            publish(log, batch, {"change": rows}, schema=SCHEMA, previous=batch - 1 if batch else None)

    def in_order(batches: dict[int, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Batch, key and value of all rows, by batch and position."""
        rows = sorted((row for rows in batches.values() for row in rows), key=lambda row: row[2:])
        return [(batch, k, n) for k, n, batch, _ in rows]

    expected = [(b, f"k{n}", b * 10 + n) for b in range(30) for n in range(b % 4)]
    half = Reader(Log(tmp_path / "log"), tmp_path / "half")
    published(range(15))
    session.kernel(shared_session()).published(half.log.uri, 14)
    first = in_order(half.read())
    published(range(15, 30))
    lease = Lease(local_app_home(tmp_path, "shop")).take()
    assert [str(merge.of) for merge in Compaction(log, lease).run()] == ["0-19"]
    lease.release()
    session.kernel(shared_session()).published(half.log.uri, 29)
    assert first + in_order(half.read()) == expected
    assert in_order(Reader(half.log, tmp_path / "whole").read()) == expected
    # Two batches of the log in each batch of the reader: not all that a merged file has.
    few = Reader(half.log, tmp_path / "few", {"maxBatchesPerTrigger": "2"})
    assert len(few.read()) > 10
    assert in_order(few.batches) == expected
    sunk = [
        (m.batch, row.k, row.n)
        for m in log.after(-1)
        if (parts := m.of_kind("change"))
        for row in change_frame(shared_session(), log, m.batch, parts).collect()
    ]
    assert sunk == expected, "and so do sinks"


def test_a_manifest_that_is_missing_in_the_middle_is_named(tmp_path: Path) -> None:
    log = TableLog(tmp_path / "log")
    for batch in (0, 1, 3, 4):
        publish(
            log, batch, {"change": [change("a", batch)]}, schema=SCHEMA, previous=max(batch - 1, 0) or None
        )
    failure = Reader(Log(tmp_path / "log"), tmp_path / "reader").failure()
    assert "/2.json is missing" in failure
