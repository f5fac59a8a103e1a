"""Where an app runs, and one life of it: a `keyfold run` process and its JVM, until they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from keyfold.engine.storage.layout import TableHome

KEYFOLD = (sys.executable, "-m", "keyfold")
APP = Path(__file__).with_name("app.py")
TARGETS = ("python", "jvm", "both")


@dataclass(frozen=True)
class Run:
    """A directory in which the app runs: its data, its home, and a topic of its own at these servers."""

    place: Path
    servers: str

    @property
    def home(self) -> Path:
        return self.place / ".keyfold"

    @property
    def topic(self) -> str:
        return self.place.name

    def environment(self) -> dict[str, str]:
        """What the app's file reads."""
        return {**os.environ, "CHAOS_SERVERS": self.servers, "CHAOS_TOPIC": self.topic}

    def keyfold(self, *words: object) -> str:
        """Runs a command to its end; what it says goes to a file. Returns what it prints."""
        number = len(list(self.place.glob("command-*.log")))
        said = self.place / f"command-{number:03d}.log"
        with said.open("wb") as file:
            done = subprocess.run(
                [*KEYFOLD, *map(str, words)],
                cwd=self.place,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=file,
            )
        if done.returncode:
            raise SystemExit(f"keyfold {words[0]} in {self.place} ended with {done.returncode}; see {said}")
        return done.stdout.decode()

    def drain(self) -> None:
        """Lets the app process all input that is there."""
        self.keyfold("run", APP, "--drain")


class Life:
    """`keyfold run` in a directory; all it says goes to a file there."""

    def __init__(self, run: Run, number: int) -> None:
        self.said = run.place / f"life-{number:03d}.log"
        with self.said.open("wb") as file:
            self.process = subprocess.Popen(
                [*KEYFOLD, "run", str(APP)], cwd=run.place, env=run.environment(), stdout=file, stderr=file
            )

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


def under_way(home: Path) -> int:
    """How many tables have a batch that Spark has planned and not committed."""
    return sum(_number(table.planned_batch()) > _number(table.committed_batch()) for table in _tables(home))


def committed(home: Path) -> int:
    """How many batches all tables have committed."""
    return sum(_number(table.committed_batch()) + 1 for table in _tables(home))


def _tables(home: Path) -> list[TableHome]:
    return [TableHome(path) for path in (home / "chaos" / "tables").glob("*")]


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch
