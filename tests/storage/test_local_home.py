"""A home on a local disk: the suite that runs on other storages too, and a disk that is full."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keyfold.errors import QueryFailed, RunError
from keyfold.fault_points import FaultPoint, handled_by
from tests.disks import small_disk
from tests.storage.home_contract import POINTS, HomeContract, expected, rows, shop, write

pytestmark = pytest.mark.jvm


class TestLocalHome(HomeContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "home")

    def test_a_disk_that_is_full_at_any_step_stops_the_app_which_then_goes_on(
        self, spark: Any, root: str, tmp_path: Path
    ) -> None:
        steps = ("sending", "named", "view")
        for number, step in enumerate(steps):
            write(tmp_path / "in", number)

            def full(point: FaultPoint, facts: dict[str, Any], step: str = step) -> None:
                if POINTS[step](point, facts):
                    raise OSError(errno.ENOSPC, "No space left on device")

            with (
                handled_by(full),
                shop(tmp_path / "in", reader=False).start(spark=spark, home=root) as handle,
                pytest.raises(QueryFailed, match=f"no space left on the disk of {root}/shop"),
            ):
                handle.drain()
        with shop(tmp_path / "in", reader=False).start(spark=spark, home=root) as handle:
            handle.drain()
            assert rows(handle, "sums", "region", "n", "ids") == expected(len(steps))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    with small_disk(tmp_path / "disk", "64m") as place:
        yield place


def fill(ballast: Path) -> None:
    """Takes all space that is left."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


@pytest.mark.timeout(600)
@pytest.mark.mount
def test_a_disk_that_is_really_full_stops_the_app_which_goes_on_once_there_is_space(
    spark: Any, disk: Path, tmp_path: Path
) -> None:
    steps = ("begun", "written", "published", "done")
    ballast = disk / "ballast"
    for number, step in enumerate(steps):
        write(tmp_path / "in", number)

        def full(point: FaultPoint, facts: dict[str, Any], step: str = step) -> None:
            if POINTS[step](point, facts) and not ballast.exists():
                fill(ballast)

        app = shop(tmp_path / "in", reader=False)
        with (
            handled_by(full),
            pytest.raises(RunError, match=r"(?i)no space left"),
            app.start(spark=spark, home=disk / "home") as handle,
        ):
            handle.drain()
        ballast.unlink()
    with shop(tmp_path / "in", reader=False).start(spark=spark, home=disk / "home") as handle:
        handle.drain()
        assert rows(handle, "sums", "region", "n", "ids") == expected(len(steps))
        assert rows(handle, "hours", "region", "n") == [(r, n) for r, n, _ in expected(len(steps))]
