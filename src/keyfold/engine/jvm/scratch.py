"""A place for what a JVM needs only while it lives: Spark's local files, RocksDB's, unpacked libraries.

```
<home>/.tmp/lock      held for a moment, while a place is made or places are cleared
<home>/.tmp/<name>/   one for each JVM that keyfold started
```

A JVM that lives longer than a run, as in a notebook, where the home may be removed meanwhile, has it in a
temporary directory instead.

Each place has a file that the JVM keeps locked. The system ends that lock with the process, however it ends,
so that the next start knows what a killed one left, also after the clock was set or a pid was used again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from keyfold import private

_PREFIX: Final = "run-"
_HELD: Final = "held"
# Of directories that have nothing but one place, and how long one may take to get it.
_OWN: Final = "keyfold-run-"
_NEW_SECONDS: Final = 60.0


class Scratch:
    """A place of its own for one JVM."""

    def __init__(self, home: Path | None) -> None:
        """In a home, or without one in a temporary directory, which goes with it."""
        for places in _of_short_lived_homes():
            clear(places)
            _remove_unused(places.parent)
        self._whole = None if home else Path(tempfile.mkdtemp(prefix=_OWN))
        places = private.directory((home or self._whole or Path()) / ".tmp")
        with _alone(places):
            _clear(places)
            self.path = Path(tempfile.mkdtemp(dir=places, prefix=_PREFIX))
            self._file: IO[Any] = private.opened(self.path / _HELD, "a")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        # The JVM, if there is one, goes on holding the place: its copy of the descriptor has the same lock.
        self._file.close()

    @property
    def inherited(self) -> dict[str, Any]:
        """How a process must be started to hold the place."""
        return {"pass_fds": (self._file.fileno(),)}

    def leave_to(self, jvm: Any) -> None:
        """Has the JVM remove the place when it ends in good order."""
        jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
            jvm.java.io.File(str(self._whole or self.path))
        )

    @property
    def runs_code(self) -> bool:
        """Whether libraries can be unpacked here and loaded."""
        return not os.statvfs(self.path).f_flag & getattr(os, "ST_NOEXEC", 0)


def clear(places: Path) -> None:
    """Removes the places of JVMs that have ended."""
    with suppress(OSError), _alone(places):
        _clear(places)


def _clear(places: Path) -> None:
    for place in places.glob(f"{_PREFIX}*"):
        # Without the file it was being made or removed by a process that was killed.
        with suppress(FileNotFoundError), (place / _HELD).open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                continue
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _alone(places: Path) -> Iterator[None]:
    """A place that is just being made is not held yet."""
    with private.opened(places / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_unused(home: Path) -> None:
    """Removes the temporary directory of a JVM that was killed, once nothing but its lock is left there."""
    with suppress(OSError):
        new = time.time() - home.stat().st_mtime < _NEW_SECONDS
        if home.name.startswith(_OWN) and not new and not any(home.glob(f".tmp/{_PREFIX}*")):
            shutil.rmtree(home, ignore_errors=True)


def _of_short_lived_homes() -> list[Path]:
    """Of `check`, `demo` and `drive`, which no later start comes back to; of this user's only."""
    found = []
    for places in Path(tempfile.gettempdir()).glob("keyfold-*/.tmp"):
        with suppress(OSError):  # its process may be removing it
            if places.lstat().st_uid == places.parent.lstat().st_uid == os.getuid():
                found.append(places)
    return found
