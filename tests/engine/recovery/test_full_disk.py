"""A disk that fills in the middle of a command: the state is the old one or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.engine.operations import unfinished
from keyfold.engine.savepoint import create
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import KeyfoldError
from keyfold.testing import drive
from tests.disks import small_disk
from tests.engine.recovery.test_rewrite_kills import Act, app, files, migrated, of_state, rescaled

pytestmark = [pytest.mark.jvm, pytest.mark.mount]

COMMANDS: dict[str, Act] = {
    "savepoint create": lambda home: create.create(AppHome(home / "shop"), "first"),
    "rescale": rescaled,
    "migrate": migrated,
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    with small_disk(tmp_path / "disk", "4m") as place:
        yield place


def filled(disk: Path, left: int) -> Path:
    """A file that leaves so many bytes of the disk."""
    ballast = disk / "ballast"
    found = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - left)
    return ballast


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_the_old_state_or_the_new_one(disk: Path, name: str) -> None:
    act, home = COMMANDS[name], disk / "home"
    with drive(app(), home=home) as d:
        d.push("rows", [{"k": k, "x": 1} for k in "abc"])
    app_home = AppHome(home / "shop")
    old, state = files(home), of_state(home)
    failures = 0
    for left in (0, 24_000, 48_000, 120_000):
        ballast = filled(disk, left)
        try:
            act(home)
        except (KeyfoldError, OSError) as error:
            failures += 1
            if "no space left" not in str(error).lower():
                raise
        finally:
            ballast.unlink()
        with unfinished.held(app_home):
            pass
        if _done(app_home, name):
            break
        assert {n: text for n, text in files(home).items() if n != "audit.jsonl"} == old
        assert of_state(home) == state
    assert failures, "the disk was never full"
    if not _done(app_home, name):
        act(home)
    assert _done(app_home, name)


def _done(home: AppHome, name: str) -> bool:
    if name == "savepoint create":
        return "first" in Savepoints(home).names()
    if name == "rescale":
        return home.table("totals").spark.partitions() == 3
    return home.storage.list("tables") == ["sums"]
