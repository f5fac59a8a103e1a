"""What it takes to own a million keys: savepoints, restore, partitions and migrations, in seconds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import keyfold as kf
from bench import data
from bench.engines import AGGREGATES, SCHEMA
from bench.standby import takeover
from keyfold.engine import start
from keyfold.engine.handle import Handle
from keyfold.engine.rescale.rescale import rescale
from keyfold.engine.savepoint import create, restore, state_check, verify
from keyfold.engine.savepoint.capture import silent
from keyfold.engine.savepoint.savepoints import Savepoints
from keyfold.engine.storage.layout import AppHome

KEYS: Final = 1_000_000
# Seconds that each may take.
BARS: Final = {
    "pause of a live savepoint": 1,
    "live savepoint": 30,
    "savepoint and its verification": 30,
    "restore to the first batch": 10,
    "rescale from 4 to 8": 60,
    "migrate: add an aggregate": 60,
    "migrate: drop a key column": 60,
    "diff of two batches": 20,
    "history of one key": 3,
    "takeover by a standby": 10,
}
APP: Final = """
import keyfold as kf
app = kf.App("evolved")
events = app.stream("events", kf.files({inbox!r}, format="parquet"), schema={schema!r})
events.by({key}).table("totals", {columns})
"""
TWO_COLUMNS: Final = '"key", part="right(key, 1)"'


class _Timed:
    """A lock that knows for how long it was held at most."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock, self._since, self.longest = lock, 0.0, 0.0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.longest = max(self.longest, time.monotonic() - self._since)
        self._lock.release()


def measure(spark: Any, keys: int = KEYS) -> dict[str, dict[str, Any]]:
    """Seconds of each, once: the state is too large for that to be luck."""
    work = Path(tempfile.mkdtemp(prefix="keyfold-bench-"))
    try:
        return {what: _entry(what, seconds) for what, seconds in _measured(spark, work, keys)}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _measured(spark: Any, work: Path, keys: int) -> Iterator[tuple[str, float]]:
    inbox, home = work / "in", AppHome(work / "home" / "bench")
    shutil.copytree(data.each(keys, keys // 2), inbox)
    with _running(spark, work) as handle:
        handle.drain()
        hook = handle.hooks["totals"]
        hook.between_batches = timed = _Timed(hook.between_batches)  # type: ignore[assignment]
        yield "live savepoint", _seconds(lambda: handle.savepoint("live"))
        yield "pause of a live savepoint", timed.longest

    def made_and_verified() -> None:
        made = create.create(home, "stopped", spark=spark)
        assert not verify.damages(made, Savepoints(home).storage("stopped"), silent)
        states = state_check.states(spark, home, "stopped", made.tables)
        assert state_check.rows(states["totals"]) == keys
        assert not state_check.differences(made, states)

    yield "savepoint and its verification", _seconds(made_and_verified)
    shutil.copy(next(inbox.glob("*.parquet")), inbox / "more.parquet")
    begun = time.monotonic()
    restore.restore(home, "live", (), None, silent)
    with _running(spark, work) as handle:
        handle.drain()
        yield "restore to the first batch", time.monotonic() - begun
    yield "rescale from 4 to 8", _seconds(lambda: rescale(spark, home, "totals", 8, None, lambda _: None))
    yield from _commands(work)
    yield "takeover by a standby", takeover(work)


def _commands(work: Path) -> Iterator[tuple[str, float]]:
    """Whole commands, from the shell's prompt to the next one."""

    def declared(key: str, columns: str) -> None:
        text = APP.format(inbox=str(work / "in"), schema=SCHEMA, key=key, columns=columns)
        (work / "evolved.py").write_text(text)

    def command(*words: str) -> float:
        whole = [sys.executable, "-m", "keyfold", *words, "--home", str(work / "evolved")]
        begun = time.monotonic()
        done = subprocess.run(whole, cwd=work, stdout=subprocess.DEVNULL, check=False)
        # 1: states that differ.
        if done.returncode not in (0, 1 if words[:2] == ("state", "diff") else 0):
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}")
        return time.monotonic() - begun

    declared(TWO_COLUMNS, 'n="count(*)"')
    command("run", "evolved.py", "--drain")
    declared(TWO_COLUMNS, 'n="count(*)", most="max(amount)"')
    yield "migrate: add an aggregate", command("migrate", "evolved.py")
    declared('"key"', 'n="count(*)", most="max(amount)"')
    yield "migrate: drop a key column", command("migrate", "evolved.py")
    shutil.copy(next((work / "in").glob("*.parquet")), work / "in" / "again.parquet")
    command("run", "evolved.py", "--drain")
    last = AppHome(work / "evolved" / "evolved").table("totals").committed_batch() or 0
    both = (str(last - 1), str(last))
    yield "diff of two batches", command("state", "diff", *both, "evolved.totals")
    yield "history of one key", command("state", "history", "evolved.totals", "key-0000001")


@contextmanager
def _running(spark: Any, work: Path) -> Iterator[Handle]:
    app = kf.App("bench")
    stream = app.stream("events", kf.files(str(work / "in"), format="parquet"), schema=SCHEMA)
    stream.by("key").table("totals", AGGREGATES, partitions=4)
    handle = start.start(app.spec(), spark=spark, home=work / "home", settings={})
    try:
        yield handle
    finally:
        handle.stop()


def _seconds(act: Any) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def _entry(what: str, seconds: float) -> dict[str, Any]:
    print(f"state, {what}: {seconds:.2f} s", file=sys.stderr, flush=True)
    return {
        "seconds": f"{seconds:.2f}",
        "bar": f"{'within' if seconds <= BARS[what] else 'MISSES'} {BARS[what]} s",
    }
