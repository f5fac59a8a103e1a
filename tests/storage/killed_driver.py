"""Runs an app on a home up to a fault point of a batch, where this process and its JVM are killed.

`goes_on_as_if_it_had_not` is the test that does so, with such processes, on any storage.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from keyfold.fault_points import FaultPoint, handled_by
from tests.storage.home_contract import expected, folded, rows, shop, write

FILES = 5
ROOT = Path(__file__).resolve().parents[2]


def run(root: str, work: Path, point: FaultPoint, batch: int) -> None:
    """Never returns, if it comes to the point."""

    def die(reached: FaultPoint, facts: dict[str, Any]) -> None:
        if reached is point and facts["table"] == "sums" and facts["batch"] == batch:
            for child in psutil.Process().children(recursive=True):
                child.kill()
            os.kill(os.getpid(), signal.SIGKILL)

    with handled_by(die), shop(work / "inbox").start(home=root, local=work / "local") as handle:
        handle.drain()


def goes_on_as_if_it_had_not(spark: Any, root: str, work: Path, settings: Mapping[str, str]) -> None:
    """Kills two drivers, and compares what the next one computes with a plain count.

    `settings`: of Spark, with which the processes reach the home.
    """
    for number in range(FILES):
        write(work / "inbox", number)
    environment = {
        **os.environ,
        "KEYFOLD_MASTER": "local[2]",
        "KEYFOLD_DRIVER_MEMORY": "1g",
        "KEYFOLD_SPARK": json.dumps(dict(settings)),
    }
    # Before the manifest, and after it but before Spark's commit; each process with its JVM.
    for point, batch in (("PARTS_WRITTEN", 1), ("BATCH_PUBLISHED", 3)):
        command = [sys.executable, "-m", __name__, root, str(work), point, str(batch)]
        with (work / point).open("w") as log:
            ended = subprocess.run(
                command, stdout=log, stderr=log, env=environment, cwd=ROOT, timeout=280, check=False
            )
        assert ended.returncode == -signal.SIGKILL, (work / point).read_text()
    with shop(work / "inbox").start(spark=spark, home=root, local=work / "elsewhere") as handle:
        handle.drain()
        assert rows(handle, "sums", "region", "n", "ids") == expected(FILES)
        assert folded(handle, "sums") == {region: (n, ids) for region, n, ids in expected(FILES)}
        assert rows(handle, "whole", "regions", "n") == [(2, 3 * FILES)]
        assert rows(handle, "hours", "region", "n") == [("eu", 2 * FILES), ("us", FILES)]


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), FaultPoint[sys.argv[3]], int(sys.argv[4]))
