"""Runs an app on a home up to a fault point of a batch, where this process and its JVM are killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil

from keyfold.fault_points import FaultPoint, handled_by
from tests.storage.home_contract import shop


def run(root: str, work: Path, point: FaultPoint, batch: int) -> None:
    """Never returns, if it comes to the point."""

    def die(reached: FaultPoint, facts: dict[str, Any]) -> None:
        if reached is point and facts["table"] == "sums" and facts["batch"] == batch:
            for child in psutil.Process().children(recursive=True):
                child.kill()
            os.kill(os.getpid(), signal.SIGKILL)

    with handled_by(die), shop(work / "inbox").start(home=root, local=work / "local") as handle:
        handle.drain()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), FaultPoint[sys.argv[3]], int(sys.argv[4]))
