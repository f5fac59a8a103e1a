"""`keyfold state history`: the changes that a log has, and why earlier ones are gone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from keyfold.engine.log.retention import forget_changes, prune
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from tests.cli.conftest import AT, ROWS, TOTALS, Cli, make_app
from tests.log_files import publish

SAID_AT = "2026-01-01T12:00:00Z"
CHANGES = pa.schema([("_op", pa.string()), ("region", pa.string()), ("n", pa.int64())])


def declare_history(home: AppHome, history: str | None) -> None:
    """Records how long the table keeps its changes, as a start would."""
    declared = home.read_plan().declared_tables
    totals = {**declared["totals"], "history": history}
    home.write_plan(home.read_plan().with_declared({**declared, "totals": totals}))


@pytest.fixture
def log(tmp_path: Path) -> TableLog:
    """The log of a table with twelve batches; the table's `history=` keeps them."""
    home = AppHome(tmp_path / "shop")
    make_app(home, {TOTALS: ROWS[TOTALS]})
    declare_history(home, "30 days")
    made = TableLog(home.table("totals").log_files)
    for batch in range(12):
        change(made, batch)
    return made


def change(log: TableLog, batch: int) -> None:
    publish(log, batch, {"change": [{"_op": "upsert", "region": "eu", "n": batch}]}, schema=CHANGES, at=AT)


def test_what_a_migration_has_removed_is_told_with_its_batch(cli: Cli, log: TableLog, tmp_path: Path) -> None:
    words = ("state", "history", "totals", "eu", "--home", tmp_path)
    assert cli(*words, "--json").json["since"] == {
        "batch": 0,
        "at": SAID_AT,
        "whole": True,
        "migrated": None,
    }
    forget_changes(log, 11)
    forget_changes(log, 11)  # as the next start does after a kill
    said = "it started over after batch 11, when the table was migrated"
    assert cli(*words).err == f"keyfold: the log has no changes yet: {said}\n"
    change(log, 12)
    assert cli(*words).err == f"keyfold: the log has all changes since batch 12, {SAID_AT}: {said}\n"
    found = cli(*words, "--json").json
    assert (found["since"]["migrated"], [one["batch"] for one in found["changes"]]) == (11, [12])
    # Once later batches are gone too, the migration is no longer the reason.
    for batch in range(13, 30):
        change(log, batch)
    assert prune(log, 29) == 19
    assert cli(*words, "--json").json["since"]["migrated"] is None
    assert "earlier ones are older than history=30 days" in cli(*words).err


def test_a_log_without_changes_says_what_keeps_them(cli: Cli, log: TableLog, tmp_path: Path) -> None:
    home = AppHome(tmp_path / "shop")
    prune(log, 11, newest=99)
    words = ("state", "history", "totals", "eu", "--home", tmp_path)
    assert cli(*words).err == "keyfold: the log has no changes: all are older than history=30 days\n"
    declare_history(home, None)
    assert (
        cli(*words).err
        == "keyfold: the log has no changes: all followers have read them; history= keeps them\n"
    )
    log.storage.delete("totals.json")
    assert cli(*words).err == "keyfold: the table has no changes yet\n"
