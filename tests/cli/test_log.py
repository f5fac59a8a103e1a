"""`keyfold log`: what a table's log contains, whether it is whole, and less of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease
from tests.cli.conftest import ROWS, TOTALS, Cli, make_app
from tests.log_files import publish

CHANGES = pa.schema([("_op", pa.string()), ("region", pa.string())])
REJECTED = {"kind": "rejected", "reason": "r", "raw": "{}"}


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    """The log of shop.totals: changes in two batches, a rejected row in the second."""
    home = AppHome(tmp_path / "home" / "shop")
    make_app(home, {TOTALS: ROWS[TOTALS]})
    log = TableLog(home.table("totals").log)
    row = {"_op": "upsert", "region": "eu"}
    publish(log, 0, {"change": [row]}, schema=CHANGES, at=datetime.now(UTC) - timedelta(days=2))
    publish(log, 11, {"change": [row, row], "rejected": [REJECTED]}, schema=CHANGES)
    return log


def home(log: TableLog) -> tuple[str, str]:
    return ("--home", str(log.storage.root.parents[3]))


def test_batches_are_listed_with_their_rows_files_and_sizes(cli: Cli, log: TableLog) -> None:
    shown = cli("log", "show", "shop.totals", *home(log))
    assert shown.code == 0
    header, _, first, second = shown.out.splitlines()
    assert header.split() == ["batch", "at", "change", "late", "rejected", "duplicate", "files", "size"]
    assert [first.split()[i] for i in (0, 2, 4, 6)] == ["0", "1", "0", "1"]
    assert [second.split()[i] for i in (0, 2, 4, 6)] == ["11", "2", "1", "2"]
    newest = cli("log", "show", "totals", *home(log), "--limit", 1, "--json").json
    assert [(b["batch"], b["change"], b["rejected"], b["files"]) for b in newest["batches"]] == [
        (11, 2, 1, 2)
    ]
    assert newest["removed_upto"] == -1


def test_partial_matches_that_a_limit_dropped_are_listed_if_there_are_any(cli: Cli, log: TableLog) -> None:
    publish(log, 12, counts={"dropped_partial": 900})
    header, _, *rows = cli("log", "show", "shop.totals", *home(log)).out.splitlines()
    at = header.split().index("dropped_partial")
    assert [row.split()[at] for row in rows] == ["0", "0", "900"]


def test_what_was_removed_is_said(cli: Cli, log: TableLog) -> None:
    (log.storage.root / "totals.json").write_text('{"layout": 1, "upto": 7, "counts": {"change": 12345}}')
    shown = cli("log", "show", "totals", *home(log))
    assert "removed up to batch 7, read by all followers: 12.3k change" in shown.err


def test_every_file_is_compared_with_its_checksum(cli: Cli, log: TableLog) -> None:
    whole = cli("log", "verify", "totals", *home(log))
    assert (whole.code, whole.out.startswith("3 files, ")) == (0, True)
    assert cli("log", "verify", "totals", *home(log), "--json").json["files"] == 3
    (part,) = (log.find(0) or pytest.fail("it is there")).parts
    path = log.storage.root / part.path
    path.write_bytes(path.read_bytes()[:-4] + b"oops")
    damaged = cli("log", "verify", "totals", *home(log))
    assert damaged.code == 1
    assert f"{path} is damaged: its checksum is" in damaged.err


def test_side_outputs_of_batches_whose_changes_are_gone_are_deleted(cli: Cli, log: TableLog) -> None:
    assert cli("log", "prune", "totals", *home(log), "--json").json == {"batches": 0, "bytes": 0}
    (log.storage.root / "totals.json").write_text('{"layout": 1, "upto": 11, "counts": {}}')
    done = cli("log", "prune", "totals", *home(log), "--older-than", "1 day")
    assert done.out.startswith("side outputs of 1 batches deleted")
    assert log.batches() == [11]
    wrong = cli("log", "prune", "totals", *home(log), "--older-than", "soon")
    assert wrong.code == 2
    assert "older-than" in wrong.err


def test_old_batches_are_merged_unless_the_app_runs(cli: Cli, log: TableLog) -> None:
    for batch in range(12, 30):
        row = {"_op": "upsert", "region": str(batch)}
        publish(log, batch, {"change": [row], "rejected": [REJECTED]}, schema=CHANGES)
    lease = Lease(AppHome(log.storage.root.parents[2])).take()
    running = cli("log", "compact", "totals", *home(log))
    assert (running.code, "this command needs the app stopped" in running.err) == (3, True)
    lease.release()
    done = cli("log", "compact", "shop.totals", *home(log), "--json")
    assert "batches 0-19 merged" in done.err
    assert done.json["batches"] == 10
    assert (done.json["before"]["files"], done.json["after"]["files"]) == (29, 3)
    assert done.json["after"]["bytes"] < done.json["before"]["bytes"]
    shown = cli("log", "show", "totals", *home(log))
    assert [shown.out.splitlines()[2].split()[i] for i in (0, 2, 4, 6)] == ["0-19", "11", "9", "2"]
    merged = cli("log", "show", "totals", *home(log), "--json").json["batches"][0]
    assert (merged["first"], merged["batch"], merged["change"]) == (0, 19, 11)
    assert cli("log", "verify", "totals", *home(log), "--json").json["files"] == 2 + 20
    assert cli("log", "compact", "totals", *home(log)).out == "nothing to merge\n"


def test_an_unknown_table_suggests_a_near_one(cli: Cli, log: TableLog) -> None:
    found = cli("log", "show", "shop.total", *home(log))
    assert found.code == 2
    assert "did you mean 'totals'" in found.err


@pytest.mark.parametrize("words", [("show",), ("verify",)])
def test_a_stream_without_a_log_is_told_from_a_name_that_is_wrong(
    cli: Cli, log: TableLog, words: tuple[str, ...]
) -> None:
    stream = cli("log", *words, "shop.Orders", *home(log))
    assert stream.code == 2
    assert "stream orders has no log of its own: its tables read its source themselves" in stream.err
    assert "shop.totals" in stream.err
    unread = cli("log", *words, "shop.unread", *home(log))
    assert "history= or shared=True of the stream" in unread.err
    assert "no table nothing in app shop" in cli("log", *words, "shop.nothing", *home(log)).err
