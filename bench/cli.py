"""`make bench-cli`: how long commands take to answer, from a warm environment, and how long they may."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import commands

KEYFOLD = [sys.executable, "-m", "keyfold"]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# A command, and the seconds it may take.
QUICK = {
    "--help": 0.3,
    "describe app.py": 1.0,
    "get orders_app.region_totals eu": 0.5,
    "rows orders_app.region_totals": 0.5,
    "status": 0.5,
}
FIRST_ROW = 12.0
# The share of a start through spark-submit that one with the archive may take; the seconds of dev's restart.
START = 0.6
AGAIN = 3.0
KINDS = {
    "spark-submit": {"KEYFOLD_JVM_LAUNCHER": "spark-submit"},
    "no archive": {"KEYFOLD_CLASS_ARCHIVE": "false"},
    "archive": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-cli ARGS=...", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=5, help="runs to the end, of each kind, in turn")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyfold-bench-") as place:
        _call(place, "init", ".")
        starts = _starts(Path(place), chosen.starts)
        again = _again(Path(place))
        found = {"run, to the first row in the view": (_first_row(Path(place)), FIRST_ROW)}
        for words, bar in QUICK.items():
            taken = [_timed(place, *words.split()) for _ in range(chosen.rounds + 1)]
            found[words] = (statistics.median(taken[1:]), bar)
        old = starts["spark-submit"]
        for name, seconds in starts.items():
            bar = START * old if name == "archive" else math.inf
            found[f"run --drain, {name}: {seconds / old:.2f} of spark-submit's"] = (seconds, bar)
        found["dev, from an edit to its rows"] = (again, AGAIN)
    for name, (cost,) in commands.costs([commands.HERE], list(commands.COMMANDS), chosen.starts).items():
        found[f"{name}, of a small home: {cost.processor:.1f} processor seconds"] = (cost.clock, math.inf)
    if chosen.json:
        print(
            json.dumps(
                {
                    name: {"seconds": round(s, 3), "bar": None if bar == math.inf else bar}
                    for name, (s, bar) in found.items()
                }
            )
        )
        return
    table = Table("command", "seconds", "bar")
    for name, (seconds, bar) in found.items():
        table.add_row(
            name,
            f"{seconds:.2f}",
            "" if bar == math.inf else f"{'reaches' if seconds <= bar else 'MISSES'} {bar:.3g}",
        )
    Console().print(table)


def _call(place: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*KEYFOLD, *words], cwd=place, capture_output=True, check=True)


def _timed(place: str, *words: str) -> float:
    begun = time.monotonic()
    _call(place, *words)
    return time.monotonic() - begun


def _starts(place: Path, rounds: int) -> dict[str, float]:
    """Seconds of a whole `keyfold run --drain`, the median of each kind; the kinds take turns."""
    subprocess.run([sys.executable, "-m", "keyfold.engine.jvm.archive_writer"], check=True)
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, variables in KINDS.items():
            shutil.rmtree(place / ".keyfold", ignore_errors=True)
            begun = time.monotonic()
            command = [*KEYFOLD, "run", "app.py", "--drain"]
            environment = {**os.environ, **variables}
            subprocess.run(command, cwd=place, env=environment, capture_output=True, check=True)
            taken[kind].append(time.monotonic() - begun)
    shutil.rmtree(place / ".keyfold", ignore_errors=True)
    return {kind: statistics.median(seconds) for kind, seconds in taken.items()}


def _again(place: Path) -> float:
    """From an edit of the app's file to a row of the new definition in the view."""
    with (
        tempfile.TemporaryDirectory(prefix="keyfold-bench-") as home,
        subprocess.Popen(
            [*KEYFOLD, "dev", "app.py"], cwd=place, env={**os.environ, "TMPDIR": home}, **QUIET
        ) as dev,  # type: ignore[call-overload]
    ):
        try:
            _until_rows(
                lambda: next(Path(home).glob("keyfold-dev-*/orders_app/views.db"), None), "region_totals", dev
            )
            file = place / "app.py"
            text = file.read_text()
            begun = time.monotonic()
            file.write_text(text.replace('"region_totals"', '"edited"'))
            _until_rows(
                lambda: next(Path(home).glob("keyfold-dev-*/orders_app/views.db"), None), "edited", dev
            )
            taken = time.monotonic() - begun
            file.write_text(text)
            return taken
        finally:
            dev.terminate()


def _until_rows(views: Callable[[], Path | None], table: str, process: subprocess.Popen[bytes]) -> None:
    """Waits for a row that another process can read."""
    from keyfold.errors import QueryError
    from keyfold.views.reader import TableReader
    from keyfold.views.stores import views_in

    while True:
        try:
            if (found := views()) and TableReader(views_in(found).open(read_only=True), table).rows():
                return
        except (QueryError, OSError):
            pass
        if process.poll() is not None:
            raise RuntimeError("keyfold ended")
        time.sleep(0.02)


def _first_row(place: Path) -> float:
    """From the call of `keyfold run` to a row that another process can read; the kernel is there already."""
    from keyfold.kernel.build import kernel_jar

    kernel_jar()
    views = place / ".keyfold" / "orders_app" / "views.db"
    begun = time.monotonic()
    with subprocess.Popen([*KEYFOLD, "run", "app.py"], cwd=place, **QUIET) as run:  # type: ignore[call-overload]
        _until_rows(lambda: views if views.exists() else None, "region_totals", run)
        taken = time.monotonic() - begun
        run.terminate()
    return taken


if __name__ == "__main__":
    main()
