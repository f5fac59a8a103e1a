"""Drivers of an app on a cluster, each in a directory of its own, and what they have computed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from keyfold.engine.polling import wait_until

SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "700m", "spark.ui.enabled": "false"}
REGIONS = ("asia", "eu", "us")


def write(place: Path, numbers: range) -> None:
    """Files of three rows."""
    (place / "in").mkdir(exist_ok=True)
    for number in numbers:
        rows = [{"region": region, "amount": number} for region in REGIONS]
        (place / "in" / f"{number:02d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def expected(files: int) -> list[dict[str, object]]:
    """The totals of the first files, by a plain count."""
    return [{"region": r, "n": files, "revenue": float(sum(range(files)))} for r in REGIONS]


def keyfold(*words: str) -> list[str]:
    return [sys.executable, "-m", "keyfold", *words]


@dataclass(frozen=True)
class Drivers:
    """The drivers of one app, `shop`, on one home: a path or a URI."""

    place: Path
    app: str
    home: str
    spark: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, name: str, command: list[str]) -> subprocess.Popen[str]:
        """Starts a driver in a working directory, with local files, of its own."""
        directory = self.place / name
        directory.mkdir()
        (directory / "app.py").write_text(self.app.format(inbox=str(self.place / "in")))
        return subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **self._settings(name)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _settings(self, name: str) -> dict[str, str]:
        return {
            "KEYFOLD_HOME": self.home,
            "KEYFOLD_LOCAL": str(self.place / name / "local"),
            "KEYFOLD_SPARK": json.dumps({**SETTINGS, **self.spark}),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            **self.environment,
        }

    def view(self, name: str, table: str) -> list[dict[str, object]]:
        """The rows of a view in the local files of a driver."""
        command = keyfold("rows", f"shop.{table}", "--json")
        environment = {**os.environ, **self._settings(name)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return [{name: row[name] for name in row if not name.startswith("_")} for row in found]

    def come_to(self, batch: int, name: str, process: subprocess.Popen[str]) -> None:
        """Waits until a batch of `totals` is in the view of a driver, which must still be running."""
        come_to(lambda: [self.place / name / "local"], batch, process)


def come_to(places: Callable[[], Iterable[Path]], batch: int, process: subprocess.Popen[str]) -> None:
    """Waits until a batch of `totals` is in a view in one of these directories, with the process running."""

    def come(local: Path) -> bool:
        try:
            status = json.loads((local / "shop" / "status.json").read_text())
        except FileNotFoundError:
            return False
        at = status["tables"].get("totals", {}).get("batch")
        return at is not None and at >= batch

    assert wait_until(lambda: any(map(come, places())) or process.poll() is not None, 280, pause=0.1)
    assert process.poll() is None, process.communicate()[0]


def ended(process: subprocess.Popen[str], seconds: float = 280) -> str:
    """What a driver has said, which must end without an error."""
    said, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, said
    return said


def kill(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """kill -9, of a process and all that it started."""
    children = psutil.Process(process.pid).children(recursive=True)
    for one in (psutil.Process(process.pid), *children):
        one.send_signal(signal.SIGKILL)
    process.communicate()


def below(process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    """The JVMs that a process has started, directly or not, and whose main class has this in its name."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if _is_java(child, name)]


def _is_java(process: psutil.Process, name: str) -> bool:
    try:
        program, *words = process.cmdline() or [""]
    except psutil.Error:
        return False
    return program.endswith("java") and any(name in word and word.startswith("org.") for word in words)
