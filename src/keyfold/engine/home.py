"""The home on disk: where an app's files are, what runs there, and who holds it.

```
<home>/<app>/lock          pids of the Python process and of its JVM
<home>/<app>/app.json      plan and meaning of what runs
<home>/<app>/views.db      views
<home>/<app>/streams/<s>/  rows of kf.rows
<home>/<app>/tables/<t>/   checkpoint/  rejected/  late/  changes/
```
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from keyfold.errors import HomeLocked, HomeUnusable, QueryError, did_you_mean

ORPHAN_SECONDS = 10.0


@dataclass(frozen=True)
class TableHome:
    """The directory of one table."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def rejected(self) -> Path:
        return self.path / "rejected"

    @property
    def changes(self) -> Path:
        return self.path / "changes"

    def watermark_ms(self, batch: int) -> int | None:
        """The watermark a batch runs with, from the offset log that Spark wrote before it."""
        try:
            lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()
            found = int(json.loads(lines[1]).get("batchWatermarkMs", 0))
        except (OSError, ValueError, IndexError):
            return None
        return found or None


@dataclass(frozen=True)
class AppHome:
    """The directory of one app in a home."""

    path: Path

    @property
    def views(self) -> Path:
        return self.path / "views.db"

    @property
    def plan(self) -> Path:
        return self.path / "app.json"

    def table(self, name: str) -> TableHome:
        return TableHome(self.path / "tables" / name)

    def stream(self, name: str) -> Path:
        return self.path / "streams" / name

    def read_plan(self) -> dict[str, Any] | None:
        """What was written when the app last started here, if it ever did."""
        try:
            found = json.loads(self.plan.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise HomeUnusable(f"{self.plan} can't be read: {error}", given=self.path) from None
        return dict(found)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        replace_file(self.plan, json.dumps(plan, indent=1, ensure_ascii=False).encode())


def replace_file(path: Path, content: bytes) -> None:
    """Writes aside and renames, so that a reader or a crash sees the old file or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def app_home(home: Path, app: str) -> AppHome:
    """The app's directory, made if need be."""
    path = home.resolve() / app
    try:
        (path / "tables").mkdir(parents=True, exist_ok=True)
        probe = path / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise HomeUnusable(
            f"the home can't be written: {error.strerror}",
            given=home,
            hint="another directory: --home DIR, home=..., or KEYFOLD_HOME",
        ) from None
    return AppHome(path)


def apps(home: Path) -> list[str]:
    """The apps that have run in a home."""
    return sorted(p.parent.name for p in home.glob("*/app.json"))


def find(home: Path, name: str) -> tuple[AppHome, str]:
    """The app and table that `app.table`, or `table` in a home with one app, means."""
    app, _, table = name.rpartition(".")
    known = apps(home)
    if not known:
        raise QueryError(
            f"no app has run in {home}",
            reason="not_ready",
            given=name,
            hint="keyfold run APP.py, or --home DIR",
        )
    if not app and len(known) > 1:
        hint = f"one of {', '.join(f'{a}.{table}' for a in known)}"
        raise QueryError("the home has several apps; say which", given=name, hint=hint)
    app = app or known[0]
    if app not in known:
        raise QueryError(
            f"no app {app} in {home}",
            reason="not_found",
            given=name,
            hint=did_you_mean(app, known, f"one of {', '.join(known)}"),
        )
    return AppHome(home.resolve() / app), table


class Lock:
    """Holds an app's home for this process and its JVM.

    The system's lock on the file ends with the Python process. Its JVM may live on for a moment, so its pid
    is in the file: a new owner waits for an orphan to end, then ends it, before any query of its own starts.
    """

    def __init__(self, home: AppHome) -> None:
        self._path = home.path / "lock"
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

    def _write(self, jvm: int | None) -> None:
        assert self._file is not None
        self._file.seek(0)
        self._file.truncate()
        json.dump({"python": _identity(os.getpid()), "jvm": jvm and _identity(jvm)}, self._file)
        self._file.flush()


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

    if not jvm:
        return
    try:
        process = psutil.Process(int(jvm["pid"]))
        if abs(process.create_time() - jvm["started"]) > 1 or process.pid == _own_jvm():
            return
        process.wait(ORPHAN_SECONDS)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def _own_jvm() -> int | None:
    """The JVM of this process, which outlives a handle and is no orphan."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return jvm_pid(gateway) if gateway is not None else None


def jvm_pid(gateway: Any) -> int:
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())


def wait_until(condition: Any, seconds: float, pause: float = 0.02) -> bool:
    """Polls a condition; whether it came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
