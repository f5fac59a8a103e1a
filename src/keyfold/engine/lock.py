"""Who holds a home."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from typing import IO, Any

from keyfold.engine.home import AppHome
from keyfold.errors import HomeLocked

ORPHAN_SECONDS = 10.0

# A lock ends with its file object: queries outlive a handle that nobody kept, and so must the lock.
_HELD: set[Lock] = set()


class Lock:
    """Holds an app's home for this process and its JVM.

    The system's lock on the file ends with the Python process. Its JVM may live on for a moment, so its pid
    is in the file: a new owner waits for an orphan to end, then ends it, before any query of its own starts.
    """

    def __init__(self, home: AppHome) -> None:
        self._path = home.lock
        self._file: IO[str] | None = None

    def take(self) -> Lock:
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _read(file)
            file.close()
            raise HomeLocked(
                f"another process holds {self._path.parent}",
                given=f"pid {owner.get('python', {}).get('pid', '?')}",
                hint="stop it, or use another home (--home DIR)",
            ) from None
        _end_orphan(_read(file).get("jvm"))
        self._file = file
        _HELD.add(self)
        self._write(None)
        return self

    def holds_jvm(self, pid: int) -> None:
        """Writes down the JVM that commits for this process."""
        self._write(pid)

    def release(self) -> None:
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
        json.dump({"python": _identity(os.getpid()), "jvm": jvm and _identity(jvm)}, self._file)
        self._file.flush()


def holder(home: AppHome) -> int | None:
    """The pid of the process that holds a home, if one does. Asks for no lock: a start might trip over it."""
    try:
        with home.lock.open("r") as file:
            owner = _alive(_read(file).get("python"))
    except OSError:
        return None
    return None if owner is None else int(owner.pid)


def _identity(pid: int) -> dict[str, float]:
    """A pid with its start time, since pids come round again."""
    import psutil

    return {"pid": pid, "started": psutil.Process(pid).create_time()}


def _read(file: IO[str]) -> dict[str, Any]:
    file.seek(0)
    try:
        return dict(json.loads(file.read() or "{}"))
    except ValueError:
        return {}


def _end_orphan(jvm: Mapping[str, float] | None) -> None:
    import psutil

    process = _alive(jvm)
    if process is None or process.pid == _own_jvm():
        return
    try:
        process.wait(ORPHAN_SECONDS)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def _alive(identity: Mapping[str, float] | None) -> Any:
    """The process that `_identity` was written of, if it still runs."""
    import psutil

    if not identity:
        return None
    try:
        process = psutil.Process(int(identity["pid"]))
        return process if abs(process.create_time() - identity["started"]) <= 1 else None
    except psutil.NoSuchProcess:
        return None


def _own_jvm() -> int | None:
    """The JVM of this process, which outlives a handle and is no orphan."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return jvm_pid(gateway) if gateway is not None else None


def jvm_pid(gateway: Any) -> int:
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
