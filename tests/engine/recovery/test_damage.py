"""Files of a home that are damaged or lost: which one is named, and whether what is advised helps."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import keyfold as kf
from keyfold.engine.handle import Handle
from keyfold.engine.operations import removal as table_removal
from keyfold.engine.recovery import damage
from keyfold.engine.sources.json_rows import encode, put
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeUnusable, QueryFailed, RunError
from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def shop(inbox: Path) -> kf.App:
    """totals, which sizes reads, and others beside them."""
    app = kf.App("shop")
    orders = app.stream("orders", kf.files(inbox), schema="region string, amount double")
    totals = orders.by("region").table("totals", n="count(*)", partitions=1)
    totals.changes().by("n").table("sizes", regions="count(*)", partitions=1)
    orders.by("region").table("others", n="count(*)", partitions=1)
    return app


@pytest.fixture
def home(tmp_path: Path) -> AppHome:
    """The home of an app that has run two batches; a third waits."""
    inbox = tmp_path / "in"
    for number in range(2):
        put(inbox, f"{number}", encode([{"region": "eu", "amount": 1.0}]))
        with started(tmp_path) as handle:
            handle.drain()
    put(inbox, "2", encode([{"region": "eu", "amount": 1.0}]))
    return AppHome(tmp_path / "home" / "shop")


def started(directory: Path) -> Handle:
    return shop(directory / "in").start(home=directory / "home", spark=shared_session())


def failing(directory: Path) -> RunError:
    with pytest.raises((QueryFailed, HomeUnusable)) as stopped, started(directory) as handle:
        handle.drain()
    return stopped.value


def goes_on(directory: Path, others: int) -> None:
    """All rows are counted once, and the table beside is in its old life."""
    with started(directory) as handle:
        handle.drain()
        assert [(row["region"], row["n"]) for row in handle.table("totals").rows()] == [("eu", 3)]
        assert [(row["n"], row["regions"]) for row in handle.table("sizes").rows()] == [(3, 1)]
        assert handle.table("others").get("eu")["n"] == 3  # type: ignore[index]
        assert handle.table("others").position().batch == others  # type: ignore[union-attr]


def state_of(checkpoint: Path, batch: int) -> Path:
    """What a batch changed in the only partition, by the attempt that the commit log names."""
    (file,) = checkpoint.glob(f"state/0/0/{batch + 1}_*.changelog")
    return file


def overwritten(file: Path) -> None:
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(byte ^ 0xFF for byte in content[middle : middle + 8])
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:10])


def test_state_that_is_damaged_is_named_and_reset_costs_no_other_table(home: AppHome, tmp_path: Path) -> None:
    checkpoint = home.table("totals").checkpoint
    newest, earlier = state_of(checkpoint, batch=1), state_of(checkpoint, batch=0)
    hurt: list[tuple[Path, Callable[[Path], None], str]] = [
        (newest, overwritten, "is cut short or overwritten"),
        (newest, lambda file: file.write_bytes(b""), "is cut short"),
        # Whole, and not what was written: only its checksum tells.
        (newest, lambda file: file.write_bytes(earlier.read_bytes()), "is cut short or overwritten"),
        (newest, Path.unlink, "is missing"),
        (checkpoint / "state/0/_metadata/v2/1", cut, "is cut short"),
        (checkpoint / "metadata", cut, "is cut short"),
        (checkpoint / "offsets/1", cut, "is cut short"),
        (checkpoint / "offsets/1", Path.unlink, "is missing"),
        (checkpoint / "state", shutil.rmtree, "is missing"),
    ]
    whole = tmp_path / "whole"
    shutil.copytree(home.path, whole)
    for file, harm, how in hurt:
        harm(file)
        error = str(failing(tmp_path))
        assert f"{file.relative_to(checkpoint.parent)} {how}" in error, error
        assert f"given: {file}" in error
        assert "`keyfold reset shop.totals --with-readers`" in error
        assert "the batch is retried" not in error
        shutil.rmtree(home.path)
        shutil.copytree(whole, home.path)
    overwritten(newest)
    table_removal.remove(home, "reset", contents.with_readers(home, "totals"))
    goes_on(tmp_path, others=2)


def test_state_that_another_attempt_of_a_task_wrote_is_not_read(home: AppHome, tmp_path: Path) -> None:
    """As after speculation, or a task that was taken for dead: the commit log says whose state counts."""
    for table in ("totals", "sizes", "others"):
        checkpoint = home.table(table).checkpoint
        newest, earlier = state_of(checkpoint, batch=1), state_of(checkpoint, batch=0)
        shutil.copy(earlier, newest.with_name(f"2_{uuid.uuid4()}.changelog"))
        shutil.copy(earlier, newest.with_name(f"3_{uuid.uuid4()}.changelog"))
    goes_on(tmp_path, others=2)


def test_a_commit_that_is_damaged_can_be_removed_and_counts_once(home: AppHome, tmp_path: Path) -> None:
    file = home.table("totals").checkpoint / "commits/1"
    file.write_bytes(b"")
    error = str(failing(tmp_path))
    assert "checkpoint/commits/1 is cut short or overwritten; nothing was changed" in error
    assert "remove the file: its batch then runs again, and is counted once" in error
    file.unlink()
    goes_on(tmp_path, others=2)


def test_a_lost_checkpoint_is_reset_and_a_lost_view_made_again(home: AppHome, tmp_path: Path) -> None:
    views = home.local / "views.db"
    views.write_bytes(views.read_bytes()[:5000])
    error = str(failing(tmp_path))
    assert "move views.db, views.db-wal and views.db-shm away" in error
    views.unlink()
    shutil.rmtree(home.table("totals").checkpoint)
    table_removal.remove(home, "reset", ["totals", "sizes"])
    goes_on(tmp_path, others=2)


def test_a_whole_checkpoint_has_no_damage(home: AppHome) -> None:
    for table in ("totals", "sizes", "others"):
        assert damage.in_logs(home.table(table).spark) is None
        assert list(damage._broken_states(home.table(table).spark, shared_session()._jvm)) == []
