"""What tables leave for the tables that read them, and what `distinct` removes: files, without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.cli import formatting
from keyfold.engine.batch import hook, side_outputs
from keyfold.engine.log import chain
from keyfold.engine.log.chain import Links, Use
from keyfold.engine.status.backlog import Backlog
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.plan.nodes import Changes, Enrich, Source, TableSpec, Union


def reader(node: object) -> TableSpec:
    return TableSpec("app", "reader", node, (("k", "k"),), (("n", "count(*)"),))  # type: ignore[arg-type]


def log(home: TableHome, place: int, *batches: int, source: int = 0, use: str = "0-sums") -> None:
    """What a source of files writes down when it has taken files."""
    lines = [
        json.dumps(
            {"path": f":/from/{use}/{b:012d}.parquet", "timestamp": 1, "size": 9, "batchId": place},
            separators=(",", ":"),
        )
        for b in batches
    ]
    entry = home.checkpoint / "sources" / str(source) / str(place)
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text("\n".join(["v1", *lines]))


def committed(home: TableHome, batch: int, *places: int | None) -> None:
    for name in ("offsets", "commits"):
        (home.checkpoint / name).mkdir(parents=True, exist_ok=True)
        (home.checkpoint / name / str(batch)).touch()
    sources = ["-" if place is None else json.dumps({"logOffset": place}) for place in places]
    (home.checkpoint / "offsets" / str(batch)).write_text("\n".join(["v1", "{}", *sources]))


def put(directory: Path, *batches: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number in batches:
        (directory / f"{number:012d}.parquet").write_text(str(number))


def test_a_table_met_as_of_event_time_is_not_read_by_its_changes() -> None:
    node = Enrich(
        Enrich(Union((Changes("sums"), Changes("sums"))), "prices", ("k",), as_of="event"), "names", ("k",)
    )
    assert chain.uses(reader(node)) == [
        Use("reader", 0, "names"),
        *(Use("reader", n, "sums") for n in (2, 3)),
    ]


def test_a_batch_is_put_where_it_is_not_yet_and_once(tmp_path: Path) -> None:
    put(tmp_path, 7, 8)
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir(), old.mkdir()
    links = Links([(new, -1), (old, 7)])
    for number in (7, 7, 8):
        links.put(tmp_path / f"{number:012d}.parquet", number)
    assert sorted(chain.files(new)) == [7, 8]
    assert sorted(chain.files(old)) == [8]
    assert chain.files(new)[7].stat().st_nlink == 2
    assert not Links()


def test_a_crash_may_come_between_a_link_and_its_sync(tmp_path: Path) -> None:
    put(tmp_path, 7)
    (tmp_path / "reader").mkdir()
    seen = []

    def after_link(point: FaultPoint, facts: dict[str, Any]) -> None:
        if point == FaultPoint.READER_GIVEN:
            seen.extend(chain.files(facts["reader"]))
            facts["reader"].rename(tmp_path / "moved")

    with handled_by(after_link), pytest.raises(FileNotFoundError):
        Links([(tmp_path / "reader", -1)]).put(tmp_path / f"{7:012d}.parquet", 7)
    assert seen == [7], "linked, and the directory not synced yet"


def test_what_was_sent_is_known_from_what_waits_and_from_what_was_read(tmp_path: Path) -> None:
    place, use = AppHome(tmp_path), Use("reader", 0, "sums")
    home = place.table("reader")
    assert chain.sent(use, place) == -1
    log(home, 0, 3, 4)
    log(home, 0, 9, source=1, use="1-sums")
    assert chain.sent(use, place) == 4
    put(use.directory(home), 6)
    assert chain.sent(use, place) == 6


def test_files_read_before_the_newest_committed_batch_are_tidied_away_and_no_others(tmp_path: Path) -> None:
    place, use = AppHome(tmp_path), Use("reader", 0, "sums")
    home = place.table("reader")
    put(use.directory(home), 1, 2, 3, 4)
    chain.tidy(use, home, [0, 1])
    log(home, 0, 1, source=1)
    log(home, 1, 2, source=1)
    log(home, 2, 3, source=1)
    # The other source is further on, which says nothing of this one.
    committed(home, 5, 9, 0)
    committed(home, 6, 9, 1)
    chain.tidy(use, home, [0, 1])
    assert sorted(chain.files(use.directory(home))) == [2, 3, 4], "batch 6 may have to run again"


def test_a_source_that_is_read_twice_has_two_places_in_the_offsets_and_one_log(tmp_path: Path) -> None:
    place, use = AppHome(tmp_path), Use("reader", 0, "sums")
    home = place.table("reader")
    put(use.directory(home), 1, 2)
    log(home, 0, 1, source=1)
    log(home, 1, 2, source=1)
    for number in (5, 6):
        committed(home, number, 9, 9, 0)
    chain.tidy(use, home, [0, 0, 1])
    assert sorted(chain.files(use.directory(home))) == [2], "the other source is further on than this one"


def test_changes_that_wait_count_as_files_left(tmp_path: Path) -> None:
    home, use = TableHome(tmp_path), Use("reader", 0, "sums")
    backlog = Backlog(reader(Changes("sums")), home)
    assert backlog.files() == (0, 0, 0)
    put(use.directory(home), 3, 4, 6)
    assert backlog.files() == (0, 0, 3)
    log(home, 0, 3, 4)
    assert backlog.files() == (0, 2, 3), "a batch that reads two of them is under way"
    committed(home, 0, 0)
    assert backlog.files() == (2, 0, 3)
    put(use.directory(home), 7, 9)
    assert backlog.files() == (2, 0, 5)


def test_removed_rows_are_counted_and_those_kept_aside_are_listed(tmp_path: Path) -> None:
    home = TableHome(tmp_path)
    said = [
        {"kind": "duplicate", "count": 40, "step": "distinct id"},
        {"kind": "duplicate", "count": 1, "step": "distinct id", "raw": '{"id":1}'},
        {"kind": "rejected", "reason": "key id is null", "raw": "{}"},
    ]
    files = hook.SideOutputFiles(home, 3)
    files.write(pa.array(said))
    files.close()
    counted: dict[int, int] = {}
    files.duplicates.count(counted)
    assert counted == side_outputs.removed_counts(home.removed) == {3: 41}
    (kept,) = side_outputs.read_removed(home)
    assert {name: kept[name] for name in ("batch", "step", "raw")} == {
        "batch": 3,
        "step": "distinct id",
        "raw": '{"id":1}',
    }
    assert "removed" not in kept
    assert [row["reason"] for row in side_outputs.read_rejected(home)] == ["key id is null"]


def test_removed_rows_are_shown_where_there_are_any() -> None:
    assert "removed" not in formatting.status_row("t", {"removed": 0})
    assert formatting.status_row("t", {"removed": 12_345})["removed"] == "12.3k"


def test_a_stream_beside_changes_makes_the_files_left_unknown_unless_it_is_files(tmp_path: Path) -> None:
    from keyfold.plan.nodes import Connector

    source = Source("rows", Connector("rows", "json"), "k string", None, 0)
    assert Backlog(reader(Union((source, Changes("sums")))), TableHome(tmp_path)).files() is None


def test_times_of_day_are_kept_in_what_spark_reads_at_any_depth() -> None:
    import pyarrow as pa

    nested = pa.struct([("l", pa.list_(pa.time64("ns"))), ("m", pa.map_(pa.string(), pa.time64("ns")))])
    held = side_outputs.as_parquet(pa.schema([("t", pa.time64("ns")), ("s", nested), ("n", pa.int64())]))
    assert "ns" not in str(held)
    value = {"l": [1_000, None], "m": [("a", 86_399_999_999_000)]}
    kept = pa.array([value], nested).cast(held.field("s").type).cast(nested)
    assert kept.to_pylist() == pa.array([value], nested).to_pylist()
