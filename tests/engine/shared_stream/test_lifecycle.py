"""The log of a stream over the life of an app: crashes, tables that begin later, retention, choices."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine import start
from keyfold.engine.handle import Handle
from keyfold.engine.log.compaction import Compaction
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.operations import removal as table_removal
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from keyfold.errors import QueryFailed, StateMismatch
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import drive, shared_session

pytestmark = pytest.mark.jvm

SCHEMA = "id bigint, k string"
POINTS = (
    FaultPoint.BATCH_BEGUN,
    FaultPoint.PARTS_WRITTEN,
    FaultPoint.BATCH_PUBLISHED,
    FaultPoint.BATCH_DONE,
)


class Died(Exception):
    """As if the process had died."""


def counting(*tables: str, source: Any = None, on_error: Any = "reject", **options: Any) -> kf.App:
    app = kf.App("shop")
    source = kf.files("unused", format="json") if source is None else source
    rows = app.stream("rows", source, schema=SCHEMA, **options)
    for table in tables:
        rows.by("k").table(table, n="count(*)", ids="sum(id)", on_error=on_error)
    return app


def started(app: kf.App, home: Path) -> Handle:
    return start.start(app.spec(), spark=shared_session(), home=home)


def put(inbox: Path, number: int, text: str | None = None) -> None:
    inbox.mkdir(exist_ok=True)
    file = inbox / f"{number:03d}.json"
    file.write_text(json.dumps({"id": number, "k": "a"}) + "\n" if text is None else text)
    os.utime(file, (1_000_000 + number, 1_000_000 + number))


def found(handle: Handle, table: str) -> tuple[int, int]:
    row = handle.table(table).get("a")
    assert row is not None
    return row["n"], row["ids"]


def recorded(home: Path) -> TableLog:
    return TableLog(AppHome(home / "shop").stream_home("rows").log_files)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("keyfold")
    before, logger.propagate = logger.propagate, True
    with caplog.at_level(logging.WARNING, logger="keyfold"):
        yield caplog
    logger.propagate = before


def test_a_crash_at_any_point_of_a_stream_records_each_row_once(tmp_path: Path) -> None:
    app = counting("one", "two", shared=True)
    with drive(app, home=tmp_path) as d:
        for number, point in enumerate(POINTS):

            def die(reached: FaultPoint, facts: dict[str, Any], point: FaultPoint = point) -> None:
                if reached == point and facts["table"] == "rows":
                    raise Died

            with handled_by(die), pytest.raises(QueryFailed):
                d.push("rows", [{"id": number, "k": "a"}, "not JSON"])
            d.restart()
            assert [row["n"] for t in ("one", "two") for row in d.rows(t)] == [number + 1] * 2, point
            assert len(d.rejected("rows")) == number + 1, point
        log = recorded(tmp_path)
        assert log.batches() == list(range(len(POINTS)))
        listed = {part.path.split("/")[1] for m in log.after(-1) for part in m.parts}
        assert set(log.storage.list("data")) == listed, "what was not published is gone"


def test_a_table_that_begins_later_reads_what_is_recorded(
    tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    source = kf.files(inbox, format="json", maxFilesPerTrigger=1)
    for number in range(25):
        put(inbox, number)
    with started(counting("one", source=source, history="7 days"), home) as handle:
        handle.drain()
    assert totals(recorded(home)).upto == -1, "nothing is pruned while history lasts"
    for file in inbox.iterdir():
        file.unlink()
    # Merged files are read like the batches that they replace.
    lease = Lease(AppHome(home / "shop")).take()
    assert [merge.batches for merge in Compaction(recorded(home), lease).run()] == [15]
    lease.release()
    with started(counting("one", "two", source=source, history="7 days"), home) as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "two")] == [(25, 300)] * 2
        assert handle.hooks["two"].last == 24, "batches are as the user bounds them"
    # A table that is reset is rebuilt from recorded rows.
    table_removal.remove(AppHome(home / "shop"), "reset", ["one"])
    with started(counting("one", "two", source=source, history="7 days"), home) as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "two")] == [(25, 300)] * 2
    assert "still recorded" not in warnings.text
    # Once history is over, a new table begins with what is left, and that is said.
    with started(counting("one", "two", source=source, history="1 millisecond"), home) as handle:
        for number in range(25, 31):
            put(inbox, number)
            handle.drain()
    upto = totals(recorded(home)).upto
    assert upto > 0
    app = counting("one", "two", "late", source=source, history="1 millisecond")
    with started(app, home) as handle:
        handle.drain()
        assert found(handle, "one") == (31, 465)
        assert found(handle, "late") == (30 - upto, sum(range(upto + 1, 31)))
    assert f"begins with the rows of stream rows that are still recorded: those after batch {upto}" in (
        warnings.text
    )


def test_without_history_a_log_is_pruned_and_a_later_table_reads_the_source(tmp_path: Path) -> None:
    inbox, home = tmp_path / "in", tmp_path / "home"
    inbox.mkdir()
    source = kf.files(inbox, format="json", maxFilesPerTrigger=1)
    with started(counting("one", "two", source=source, shared=True), home) as handle:
        for number in range(22):
            put(inbox, number)
            handle.drain()
    upto = totals(recorded(home)).upto
    assert upto >= 8
    put(inbox, 22, "not JSON\n")
    app = counting("one", "two", "late", source=source, shared=True)
    with started(app, home) as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "two", "late")] == [(22, 231)] * 3
        assert [row["raw"] for row in handle.rejected("rows")] == ["not JSON"]
        assert [len(handle.rejected(t)) for t in ("one", "two", "late")] == [0, 0, 1]
    app_home = AppHome(home / "shop")
    assert app_home.read_plan().tables["late"].shared == ()
    # It continues so, and nothing is refused.
    put(inbox, 23)
    with started(app, home) as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "late")] == [(23, 254)] * 2
    # The log goes with the last table that reads it, and all begin from scratch.
    done = table_removal.remove(app_home, "reset", ["one", "two", "late"])
    assert done["streams"] == ["rows"]
    assert recorded(home).batches() == []
    with started(app, home) as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "two", "late")] == [(23, 254)] * 3
    assert totals(recorded(home)).upto < upto or recorded(home).batches()


def test_two_tables_share_a_stream_and_a_second_one_that_comes_later_does_not(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    put(inbox, 1, '{"id": 1, "k": "a"}\nnot JSON\n')
    source = kf.files(inbox, format="json")
    for first in (("one", "two"), ("one",)):
        home, together = tmp_path / first[-1], first == ("one", "two")
        with started(counting(*first, source=source), home) as handle:
            handle.drain()
        with started(counting("one", "two", source=source), home) as handle:
            handle.drain()
            assert [found(handle, t) for t in ("one", "two")] == [(1, 1)] * 2
            assert ("rows" in handle.queries) == together
            assert [len(handle.rejected(t)) for t in ("one", "two")] == [0 if together else 1] * 2
            assert [row["raw"] for row in handle.rejected("rows")] == ["not JSON"]


def test_another_choice_than_the_first_is_refused_and_none_keeps_it(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    put(inbox, 1)
    source = kf.files(inbox, format="json")
    for first in (True, False):
        home = tmp_path / str(first)
        with started(counting("one", "two", source=source, shared=first), home) as handle:
            handle.drain()
        with pytest.raises(StateMismatch, match=f"shared={not first} does not match the state"):
            started(counting("one", "two", source=source, shared=not first), home)
        with started(counting("one", "two", source=source), home) as handle:
            handle.drain()
            assert ("rows" in handle.queries) == first
            assert found(handle, "one") == (1, 1)
    with pytest.raises(StateMismatch, match=r"`keyfold reset shop\.one`"):
        started(counting("one", source=source, history="1 day"), tmp_path / "False")
    other = kf.App("shop")
    rows = other.stream("rows", source, schema="id string, k string", shared=True)
    rows.by("k").table("one", n="count(*)", ids="sum(cast(id as bigint))")
    with pytest.raises(StateMismatch, match="written with other types") as refused:
        started(other, tmp_path / "True")
    assert "id: bigint on disk, string now" in str(refused.value)


def test_files_with_other_headers_are_rejected_once_and_missing_ones_named(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "1.csv").write_text("id,k\n1,a\nx,a\n")
    (inbox / "2.csv").write_text("k,id\na,1\n")
    source = kf.files(inbox, format="csv")
    with started(counting("one", "two", source=source, shared=True), tmp_path / "home") as handle:
        handle.drain()
        assert [found(handle, t) for t in ("one", "two")] == [(1, 1)] * 2
        rejected = sorted(handle.rejected("rows"), key=lambda row: row["file"])
        assert [Path(row["file"]).name for row in rejected] == ["1.csv", "2.csv"]
        assert rejected[0]["line"] == 3
        assert "the header of 2.csv is k,id" in rejected[1]["reason"]
        assert handle.rejected("one") == []

        def vanish(reached: FaultPoint, facts: dict[str, Any]) -> None:
            if reached == FaultPoint.BATCH_BEGUN and facts["table"] == "rows":
                (inbox / "3.csv").unlink(missing_ok=True)
                raise Died

        (inbox / "3.csv").write_text("id,k\n3,a\n")
        with handled_by(vanish), pytest.raises(QueryFailed):
            handle.drain()
    app = counting("one", "two", source=source, shared=True)
    with started(app, tmp_path / "home") as handle, pytest.raises(QueryFailed, match="files of this batch"):
        handle.drain()
    skipping = start.start(
        app.spec(), spark=shared_session(), home=tmp_path / "home", settings={"missing_files": "skip"}
    )
    with skipping as handle:
        handle.drain()
        assert [row["reason"] for row in handle.rejected("rows")][-1] == "the file is missing"


def test_a_table_that_must_not_pass_over_a_row_stops_the_stream() -> None:
    with drive(counting("one", "two", shared=True, on_error="fail")) as d:
        d.push("rows", [{"id": 1, "k": "a"}])
        with pytest.raises(QueryFailed, match="on_error is 'fail': does not parse") as failed:
            d.push("rows", ["not JSON"])
        assert failed.value.table == "rows"
        assert [row["n"] for t in ("one", "two") for row in d.rows(t)] == [1, 1]
