"""The tables that read a log: which they are, how far they have read, and what they may go on with."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.log import readers
from keyfold.engine.log.readers import Use
from keyfold.engine.log.retention import prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import reader_snapshot
from keyfold.engine.status.backlog import Backlog
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.plan.nodes import (
    AggregateSpec,
    AppSpec,
    Changes,
    Connector,
    Enrich,
    Node,
    Source,
    TableSpec,
    Union,
)
from keyfold.plan.tree import sources
from tests.log_files import publish

CHANGES = pa.schema([("_op", pa.string()), ("k", pa.string())])
USE = Use("reader", 0, "sums", previous=True)


def reader(node: Node) -> TableSpec:
    return TableSpec("app", "reader", node, (("k", "k"),), AggregateSpec((("n", "count(*)"),)))


def planned(home: TableHome, batch: int, *offsets: object, committed: bool = True) -> None:
    """What Spark writes down about a batch: its sources' offsets, and that it is done."""
    for name in ("offsets", "commits"):
        (home.checkpoint / name).mkdir(parents=True, exist_ok=True)
    lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
    (home.checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *lines]))
    if committed:
        (home.checkpoint / "commits" / str(batch)).touch()


def snapshot(home: TableHome, batch: int) -> None:
    document = {"layout": 1, "batch": batch, "parts": []}
    USE.directory(home).put(readers.SNAPSHOT, json.dumps(document).encode())


@pytest.fixture
def app_home(tmp_path: Path) -> AppHome:
    return AppHome(tmp_path / "app")


def test_a_table_enriched_as_of_event_time_is_not_read_by_its_changes() -> None:
    node = Enrich(
        Enrich(Union((Changes("sums"), Changes("sums"))), "prices", ("k",), as_of="event"), "names", ("k",)
    )
    assert readers.uses(reader(node)) == [
        Use("reader", 0, "names"),
        *(Use("reader", n, "sums", previous=True) for n in (2, 3)),
    ]
    app = AppSpec("app", streams=(), tables=(reader(node),))
    assert [use.number for use in readers.readers(app, "sums")] == [2, 3]


def test_how_far_a_reader_is_stands_in_its_offsets(app_home: AppHome) -> None:
    home = app_home.table("reader")
    assert readers.read_upto(app_home, USE) == readers.planned_upto(app_home, USE) == -1
    readers.record(USE, home, [1])
    planned(home, 0, {"logOffset": 9}, None)
    assert readers.read_upto(app_home, USE) == -1, "the other source had rows before"
    planned(home, 1, {"logOffset": 10}, 4)
    planned(home, 2, {"logOffset": 10}, 7)
    planned(home, 3, {"logOffset": 10}, 8, committed=False)
    assert readers.planned_upto(app_home, USE) == 8
    assert readers.read_upto(app_home, USE) == 7
    assert readers.kept_after(app_home, USE) == 4, "batch 2 may have to run again"


def test_a_use_that_a_plan_reads_twice_is_as_far_as_the_slower_of_its_offsets(app_home: AppHome) -> None:
    readers.record(USE, app_home.table("reader"), [0, 2])
    planned(app_home.table("reader"), 0, 5, 99, 4)
    assert readers.read_upto(app_home, USE) == 4


def test_a_reader_that_begins_with_a_snapshot_is_at_its_batch(app_home: AppHome) -> None:
    home = app_home.table("reader")
    readers.record(USE, home, [0])
    snapshot(home, 6)
    assert readers.read_upto(app_home, USE) == readers.kept_after(app_home, USE) == 6
    planned(home, 0, 8, committed=False)
    assert readers.read_upto(app_home, USE) == 6
    assert readers.planned_upto(app_home, USE) == 8
    planned(home, 0, 8)
    assert readers.read_upto(app_home, USE) == 8
    assert readers.kept_after(app_home, USE) == 6


def test_a_log_is_kept_for_its_slowest_reader(app_home: AppHome) -> None:
    log = TableLog(app_home.table("sums").log)
    for batch in range(20):
        publish(log, batch, {"change": [{"_op": "upsert", "k": "a"}]}, schema=CHANGES)
    readers.record(USE, app_home.table("reader"), [0])
    planned(app_home.table("reader"), 0, 3)
    planned(app_home.table("reader"), 1, 12)
    assert prune(log, readers.kept_after(app_home, USE)) == 3
    assert log.batches()[0] == 4


def test_tables_that_have_read_another_are_known_from_their_homes(app_home: AppHome) -> None:
    readers.record(USE, app_home.table("reader"), [0])
    assert contents.readers(app_home, "sums") == [], "it has not begun"
    planned(app_home.table("reader"), 0, 0)
    assert contents.readers(app_home, "sums") == ["reader"]
    assert contents.readers(app_home, "reader") == []


def test_batches_of_other_tables_that_have_changes_count_as_left(app_home: AppHome) -> None:
    home, log = app_home.table("reader"), TableLog(app_home.table("sums").log)
    backlog = Backlog(home, (), readers.uses(reader(Changes("sums"))))
    readers.record(USE, home, [0])
    assert backlog.files() == (0, 0, 0)
    row = {"change": [{"_op": "upsert", "k": "a"}]}
    for batch, rows in enumerate([row, row, {}, row, {}]):
        publish(log, batch, rows, schema=CHANGES)
    assert backlog.files() == (0, 0, 3)
    planned(home, 0, 1, committed=False)
    assert backlog.files() == (0, 2, 3), "a batch that reads two of them is under way"
    planned(home, 0, 1)
    assert backlog.files() == (2, 0, 3)
    planned(home, 1, 4)
    assert backlog.files() == (5, 0, 5)


def test_a_stream_beside_changes_makes_the_files_left_unknown_unless_it_is_files(app_home: AppHome) -> None:
    source = Source("rows", Connector("rows", "json"), "k string", None, 0)
    spec = reader(Union((source, Changes("sums"))))
    home = app_home.table("reader")
    assert Backlog(home, sources(spec.input), readers.uses(spec)).files() is None


def test_rows_are_overlaid_with_changes_that_came_after_them() -> None:
    schema = pa.schema([("_op", pa.string()), ("k", pa.int64()), ("v", pa.string())])

    def batch(*rows: tuple[str, int, str | None]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    rows = [batch(("upsert", 1, "a"), ("upsert", 2, "b")), batch(("upsert", 3, "c"))]
    changed = [batch(("upsert", 2, "B"), ("upsert", 4, "d")), batch(("upsert", 2, "BB"), ("delete", 3, None))]
    found = reader_snapshot.overlay(iter(rows), changed, ["k"])
    assert [(row["k"], row["v"]) for one in found for row in one.to_pylist()] == [
        (1, "a"),
        (2, "BB"),
        (4, "d"),
    ]


def test_times_of_day_are_kept_in_what_spark_reads_at_any_depth() -> None:
    nested = pa.struct([("l", pa.list_(pa.time64("ns"))), ("m", pa.map_(pa.string(), pa.time64("ns")))])
    held = reader_snapshot.as_parquet(pa.schema([("t", pa.time64("ns")), ("s", nested), ("n", pa.int64())]))
    assert "ns" not in str(held)
    value = {"l": [1_000, None], "m": [("a", 86_399_999_999_000)]}
    kept = pa.array([value], nested).cast(held.field("s").type).cast(nested)
    assert kept.to_pylist() == pa.array([value], nested).to_pylist()
