"""How long it takes a standby to go on where a process that was killed has stopped."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from bench.engines import SCHEMA
from keyfold.engine.polling import wait_until
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError

ROWS: Final = 100
# To start, to read all keys, and to take over, on a machine that does other work too.
SECONDS: Final = 600.0
APP: Final = """
import keyfold as kf
app = kf.App("standing")
events = app.stream("events", kf.files({inbox!r}, format="parquet"), schema={schema!r})
events.by("key").table("totals", n="count(*)", partitions=4)
"""


def takeover(work: Path) -> float:
    """Seconds from the end of a killed process to the first batch of the standby in the view.

    `work / "in"` has the rows that are in the state by then.
    """
    inbox, home = work / "in", AppHome(work / "standing" / "standing")
    (work / "standing.py").write_text(APP.format(inbox=str(inbox), schema=SCHEMA))
    few = pq.read_table(next(inbox.glob("*.parquet"))).slice(0, ROWS)
    files = len(list(inbox.glob("*.parquet")))
    running = [_started(work, "run")]
    try:
        _wait(lambda: _read(home) >= files, "the app has read its input", running)
        running.append(_started(work, "run", "--standby"))
        log = work / "standby.log"
        _wait(lambda: b"standing by to take over" in log.read_bytes(), "the standby waits", running)
        before = _batch(home)
        running[0].kill()
        begun = time.monotonic()
        running[0].wait()
        # Spark does not read a file that is still being written, nor a hidden one.
        pq.write_table(few, work / "few.parquet")
        (work / "few.parquet").rename(inbox / "few.parquet")
        _wait(lambda: _batch(home) > before, "the standby has published a batch", running[1:])
        return time.monotonic() - begun
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait(SECONDS)


def _started(work: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keyfold", *words, "standing.py", "--home", "standing"]
    with (work / f"{words[-1].lstrip('-')}.log").open("wb") as errors:
        return subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=errors)


def _wait(reached: object, what: str, running: list[subprocess.Popen[bytes]]) -> None:
    assert callable(reached)

    def over() -> bool:
        return reached() or any(process.poll() is not None for process in running)

    if not (wait_until(over, SECONDS, pause=0.01) and reached()):
        raise RuntimeError(f"not within {SECONDS:.0f} s, or a process ended: {what}")


def _batch(home: AppHome) -> int:
    """The batch that the view is at."""
    if not home.views.exists():
        return -1
    with home.views.open(read_only=True) as store:
        try:
            position = store.position("totals")
        except QueryError:
            return -1
    return -1 if position is None else position.batch


def _read(app_home: AppHome) -> int:
    """How many files the table has read in batches that are committed and in the view."""
    home = app_home.table("totals")
    committed = home.committed_batch()
    if committed is None or _batch(app_home) < committed:
        return 0
    # The first line says the version; the others are a file each.
    entries = (home.spark.sources.entries(log) for log in home.spark.sources.directories())
    read = (entry.read_text().splitlines()[1:] for found in entries for entry in found.values())
    return sum(len(lines) for lines in read)
