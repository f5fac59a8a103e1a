"""The lock on a home: which process may write it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from keyfold import private
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import HomeLocked

ORPHAN_SECONDS = 10.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")

# A lock ends with its file object. Queries outlive a handle that nobody keeps, and so must the lock.
_HELD: set[Lock] = set()


class Lock:
    """Holds an app's home for this process and its JVM.

    The system's lock on the file ends with the Python process. Its JVM may live a moment longer, so its pid
    is in the file: a new owner waits for such an orphan, and kills it if need be, before it starts queries.
    """

    def __init__(self, home: AppHome) -> None:
        self._path = home.lock
        self._file: IO[str] | None = None

    def take(self) -> Lock:
        """Takes the lock, or raises `HomeLocked`; kills a JVM that the last owner left."""
        file = private.opened(self._path, "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _read(file).get("python", {}).get("pid")
            file.close()
            raise _locked(self._path.parent, owner) from None
        _end_orphan(_read(file).get("jvm"))
        self._file = file
        _HELD.add(self)
        self._write(None)
        return self

    def holds_jvm(self, pid: int) -> None:
        """Records the JVM that commits for this process."""
        self._write(pid)

    def release(self) -> None:
        """Releases the lock, if it is held."""
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.close()
            self._file = None
            _HELD.discard(self)

    def _write(self, jvm: int | None) -> None:
        assert self._file is not None
        self._file.seek(0)
        self._file.truncate()
        json.dump({"python": identity(os.getpid()), "jvm": jvm and identity(jvm)}, self._file)
        self._file.flush()


def _locked(place: Path, owner: int | None) -> HomeLocked:
    if owner == os.getpid():
        return HomeLocked(
            f"this process already runs {place.name}",
            given=place,
            hint="use the handle that the first start returned, or call its stop() before the next start; "
            "`with app.start() as handle:` does that at its end",
        )
    what, given = f"another process holds {place}", f"pid {'?' if owner is None else owner}"
    return HomeLocked(what, given=given, hint="stop it, or use another home (--home DIR)")


def holder(home: AppHome) -> int | None:
    """The pid of the process that holds a home. Does not try the lock, which could make a start fail."""
    try:
        with home.lock.open("r") as file:
            owner = alive(_read(file).get("python"))
    except OSError:
        return None
    return None if owner is None else int(owner.pid)


def identity(pid: int) -> dict[str, Any]:
    """A pid with its start time, since pids are reused.

    The time is in ticks since boot where the system has that, because the time of day may be set.
    """
    import psutil

    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return {"pid": pid, "boot": _BOOT.read_text().strip(), "ticks": int(ticks)}
    except (OSError, IndexError):
        return {"pid": pid, "started": psutil.Process(pid).create_time()}


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        return dict(json.loads(file.read() or "{}"))
    except ValueError:
        return {}


def _end_orphan(jvm: Mapping[str, Any] | None) -> None:
    import psutil

    process = alive(jvm)
    if process is None or process.pid == _own_jvm():
        return
    try:
        process.wait(ORPHAN_SECONDS)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def alive(known: Mapping[str, Any] | None) -> Any:
    """The process of an `identity`, if it still runs."""
    import psutil

    if not known:
        return None
    try:
        process, now = psutil.Process(int(known["pid"])), identity(int(known["pid"]))
    except psutil.NoSuchProcess:
        return None
    # A time of day is computed from the clock, and differs a little each time.
    if "started" in now and "started" in known:
        return process if abs(now["started"] - known["started"]) <= 1 else None
    return process if now == known else None


def _own_jvm() -> int | None:
    """The JVM of this process, which outlives handles and is no orphan."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return jvm_pid(gateway) if gateway is not None else None


def jvm_pid(gateway: Any) -> int:
    """The pid of the JVM behind a Py4J gateway."""
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
