"""A home on a local disk: the suite that runs on other storages too, and a disk that is full."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from keyfold.errors import QueryFailed
from keyfold.fault_points import FaultPoint, handled_by
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
