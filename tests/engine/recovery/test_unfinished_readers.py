"""A key is erased from savepoints made after a kill, of a table that others read and of a shared stream."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keyfold as kf
from keyfold.engine.erasure.forget import forget
from keyfold.engine.polling import wait_until
from keyfold.engine.savepoint import clone, create, deletion, restore, verify
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.fault_points import FaultPoint, handled_by
from keyfold.testing import shared_session
from tests.engine.recovery.test_forget import traces
from tests.engine.recovery.test_unfinished_savepoints import folded, run, write

pytestmark = pytest.mark.jvm
BEGUN, DONE = FaultPoint.BATCH_BEGUN, FaultPoint.BATCH_DONE


def app(data: Path, name: str = "c3") -> kf.App:
    made = kf.App(name)
    schema = "k string, x int"
    rows = made.stream("rows", kf.files(data, maxFilesPerTrigger=1), schema=schema, shared=True)
    totals = rows.by("k").table("totals", n="count(*)", total="sum(x)", history="1 day")
    rows.by("k").top(1, by="x desc").table("best", x="x", history="1 day")
    totals.changes().by(odd="n % 2").table("sizes", keys="count(*)", total="sum(total)", history="1 day")
    return made


def sizes(home: Path, name: str = "c3") -> dict[int, tuple[int, int]]:
    """The table of the changes of totals."""
    with AppHome(home / name).views.open(read_only=True) as store:
        return {row["odd"]: (row["keys"], row["total"]) for row in store.scan("sizes") if row["keys"]}


def of_totals(totals: dict[str, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The same, from the rows of totals."""
    found: dict[int, tuple[int, int]] = {}
    for n, total in totals.values():
        keys, sum_ = found.get(n % 2, (0, 0))
        found[n % 2] = keys + 1, sum_ + total
    return found


class Steps:
    """What the batches of the tables have reached; each waits where a test says so."""

    def __init__(self, home: AppHome, wait: Callable[[Steps, str, FaultPoint], None]) -> None:
        self.home, self._wait, self._batch = home, wait, 0 if wait is first else 1
        self._reached: dict[tuple[str, FaultPoint], threading.Event] = {
            (table, point): threading.Event() for table in ("totals", "best", "sizes") for point in FaultPoint
        }
        self.over = threading.Event()

    def reach(self, point: FaultPoint, facts: dict[str, Any]) -> None:
        if facts.get("batch") == self._batch and (facts.get("table"), point) in self._reached:
            self._reached[facts["table"], point].set()
            self._wait(self, facts["table"], point)

    def wait(self, table: str, point: FaultPoint) -> None:
        assert self._reached[table, point].wait(60)

    def wait_for_commit(self, table: str) -> None:
        assert wait_until(lambda: self.home.table(table).committed_batch() == 1, 60)

    def keep(self, directory: Path) -> None:
        """Keeps what a kill would leave now, and lets all go on."""
        subprocess.run(["cp", "-r", self.home.path.parent, directory], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(directory / "c3" / "lease")
        self.over.set()


def unread(steps: Steps, table: str, point: FaultPoint) -> None:
    """Totals is committed, and neither sizes nor its own view has read the batch; best is published."""
    if (table, point) in {("best", DONE), ("totals", FaultPoint.VIEW_WRITTEN)}:
        assert steps.over.wait(60)
    if (table, point) == ("sizes", BEGUN):
        steps.wait("best", DONE)
        steps.wait_for_commit("totals")
        steps.keep(steps.home.path.parent.parent / "killed")


def planned(steps: Steps, table: str, point: FaultPoint) -> None:
    """Totals and best are published and not committed, and sizes has planned to read it."""
    if (table, point) in {("best", DONE), ("sizes", BEGUN)}:
        assert steps.over.wait(60)
    if (table, point) == ("totals", DONE):
        steps.wait("best", DONE)
        steps.wait("sizes", BEGUN)
        steps.keep(steps.home.path.parent.parent / "killed")


def first(steps: Steps, table: str, point: FaultPoint) -> None:
    """The same as `planned`, in the first batch."""
    planned(steps, table, point)


def read(steps: Steps, table: str, point: FaultPoint) -> None:
    """Totals is published and not committed, and sizes has folded it and published its own changes."""
    if (table, point) in {("best", DONE), ("sizes", DONE)}:
        assert steps.over.wait(60)
    if (table, point) == ("totals", DONE):
        steps.wait("best", DONE)
        steps.wait("sizes", DONE)
        steps.keep(steps.home.path.parent.parent / "killed")


@pytest.fixture
def killed(tmp_path: Path, request: pytest.FixtureRequest) -> AppHome:
    """A home that was killed in the second batch."""
    home, data = tmp_path / "home", tmp_path / "data"
    steps = Steps(AppHome(home / "c3"), request.param)
    for number in (0, 1):
        write(data, number)
        with handled_by(steps.reach), app(data).start(home=home, spark=shared_session()) as handle:
            handle.drain()
    shutil.rmtree(home)
    (tmp_path / "killed").rename(home)
    return AppHome(home / "c3")


def erase(home: AppHome, table: str = "totals") -> dict[str, Any]:
    return forget(shared_session(), home, table, ["ada-l"], None, lambda _: None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("killed", "committed", "left"),
    [
        (unread, 2, ["changes of the key in batch 1 of the log, for sizes to read after a restore"]),
        (planned, 1, []),
    ],
    indirect=["killed"],
    ids=["unread", "planned"],
)
def test_a_key_is_erased_from_a_savepoint_whose_readers_are_behind(
    killed: AppHome, committed: int, left: list[str]
) -> None:
    home, data = killed.path.parent, killed.path.parent.parent / "data"
    totals, best = killed.table("totals"), killed.table("best")
    assert (totals.planned_batch(), totals.committed_batch()) == (1, committed - 1)
    assert (best.planned_batch(), best.committed_batch()) == (1, 0)
    create.create(killed, "then", spark=shared_session())
    with pytest.raises(BadOption, match=r"(not finished|must first read).*"):
        erase(killed)
    assert run(app(data), home) == folded(0, 2)

    receipt = erase(killed)
    stream = "rows of the key that stream rows has in batch 1 of the log, for best to read after a restore"
    assert receipt["savepoints"]["then"]["not_searched"] == [*left, stream]
    verify.require_whole(Savepoints(killed).find("then"), Savepoints(killed).storage("then"), silent)
    saved = killed.path / "savepoints" / "then" / "files"
    assert list(traces(saved / "tables" / "totals" / "checkpoint", "ada-l")) == []
    # Once more: nothing is there that could go.
    assert run(app(data), home) == folded(2, 2, without="ada-l", before=2)
    again = erase(killed)
    told = "the deletion, with the key, for readers that a restore brings back"
    assert told in again["savepoints"]["then"]["not_searched"]

    # What was not committed is read again, and new input after it.
    write(data, 2)
    restore.restore(killed, "then", (), None, silent)
    totals = run(app(data), home)
    assert totals == folded(committed, 3, without="ada-l", before=committed)
    assert sizes(home) == of_totals(totals)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("killed", "batch"), [(read, 1), (first, 0)], indirect=["killed"])
def test_a_savepoint_whose_reader_has_folded_an_unfinished_batch_is_brought_to_its_end_in_a_clone(
    killed: AppHome, batch: int
) -> None:
    home, data = killed.path.parent, killed.path.parent.parent / "data"
    assert killed.table("totals").planned_batch() == batch
    create.create(killed, "then", spark=shared_session())
    assert run(app(data), home) == folded(0, 2)
    with pytest.raises(BadOption) as refused:
        erase(killed)
    why = f"batch {batch} of c3.totals is not finished, and sizes can't read its changes again"
    assert why in str(refused.value)
    assert "keyfold savepoint delete then; to keep its rows" in str(refused.value)

    copy = AppHome(home / "copy")
    clone.clone(killed, "then", copy, silent)
    deletion.Deletion(killed, None, held=True).delete("then")
    write(data, 2)
    for place in (killed, copy):
        assert run(app(data, place.path.name), home) == folded(0, 3)
        erase(place)
        totals = run(app(data, place.path.name), home)
        assert totals == folded(3, 3, without="ada-l", before=3)
        assert sizes(home, place.path.name) == of_totals(totals)
