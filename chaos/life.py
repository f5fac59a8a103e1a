"""One life of the app: a `keyfold run` process and its JVM, until somebody kills them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from keyfold.engine.storage.layout import TableHome

KEYFOLD = (sys.executable, "-m", "keyfold")
APP = Path(__file__).with_name("app.py")
TARGETS = ("python", "jvm", "both")


class Life:
    """`keyfold run` in a directory; all it says goes to a file there."""

    def __init__(self, place: Path, number: int) -> None:
        self.place, self.said = place, place / f"life-{number:03d}.log"
        with self.said.open("wb") as file:
            self.process = subprocess.Popen([*KEYFOLD, "run", str(APP)], cwd=place, stdout=file, stderr=file)

    def up(self) -> bool:
        return " is running in " in self.said.read_text("utf-8", "replace")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def jvm(self) -> psutil.Process | None:
        """The JVM; None while it isn't there yet."""
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
            return next((child for child in below if child.name() == "java"), None)
        except psutil.NoSuchProcess:
            return None

    def kill(self, target: str) -> int:
        """kill -9; returns the exit code of the Python process, which ends by itself when its JVM is gone."""
        jvm = self.jvm()
        if target != "python" and jvm is not None:
            jvm.kill()
        if target != "jvm" or jvm is None:
            self.process.kill()
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            raise SystemExit(
                f"the app did not end within 120 s of its JVM's death; see {self.said}"
            ) from None


def drain(place: Path) -> float:
    """Lets the app process all input that is there; returns how long it took."""
    begun = time.monotonic()
    said = place / "drain.log"
    with said.open("wb") as file:
        done = subprocess.run([*KEYFOLD, "run", str(APP), "--drain"], cwd=place, stdout=file, stderr=file)
    if done.returncode:
        raise SystemExit(f"the drain in {place} ended with {done.returncode}; see {said}")
    return time.monotonic() - begun


def under_way(home: Path) -> int:
    """How many tables have a batch that Spark has planned and not committed."""
    return sum(_number(table.begun()) > _number(table.committed()) for table in _tables(home))


def committed(home: Path) -> int:
    """How many batches all tables have committed."""
    return sum(_number(table.committed()) + 1 for table in _tables(home))


def _tables(home: Path) -> list[TableHome]:
    return [TableHome(path) for path in (home / "chaos" / "tables").glob("*")]


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch
