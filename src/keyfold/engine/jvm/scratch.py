"""Temporary directories of JVMs: Spark's and RocksDB's local files, and unpacked libraries.

```
<home>/.tmp/lock      locked briefly, while a directory is created or old ones are removed
<home>/.tmp/<name>/   one for each JVM that keyfold started
```

A JVM that outlives a run, as in a notebook, where the home may be removed meanwhile, has its directory in the
system's temporary directory instead.

Each directory has a file that the JVM keeps locked. The system releases that lock with the process, however
it ends, so the next start knows what a killed one left, even if the clock was set or its pid was reused.
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
_LOCKED_FILE: Final = "held"
# The prefix of temporary directories that have one such directory, and how long creating that may take.
_OWN: Final = "keyfold-run-"
_NEW_SECONDS: Final = 60.0


class Scratch:
    """The temporary directory of one JVM."""

    def __init__(self, home: Path | None) -> None:
        """In a home; without one, in a directory of the system's, which is removed with it."""
        for places in _of_short_lived_homes():
            clear(places)
            _remove_unused(places.parent)
        self._whole = None if home else Path(tempfile.mkdtemp(prefix=_OWN))
        places = private.directory((home or self._whole or Path()) / ".tmp")
        with _exclusive(places):
            _clear(places)
            self.path = Path(tempfile.mkdtemp(dir=places, prefix=_PREFIX))
            self._file: IO[Any] = private.open_private(self.path / _LOCKED_FILE, "a")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        # The JVM, if there is one, keeps the lock: its copy of the descriptor has it too.
        self._file.close()

    @property
    def inherited(self) -> dict[str, Any]:
        """How a process must be started to keep the directory locked."""
        return {"pass_fds": (self._file.fileno(),)}

    def leave_to(self, jvm: Any) -> None:
        """Has the JVM remove the directory when it shuts down."""
        jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
            jvm.java.io.File(str(self._whole or self.path))
        )

    @property
    def runs_code(self) -> bool:
        """Whether libraries can be unpacked here and loaded."""
        return not os.statvfs(self.path).f_flag & getattr(os, "ST_NOEXEC", 0)


def clear(places: Path) -> None:
    """Removes the directories of JVMs that have ended."""
    with suppress(OSError), _exclusive(places):
        _clear(places)


def _clear(places: Path) -> None:
    for place in places.glob(f"{_PREFIX}*"):
        # Without the file, a process was killed while it created or removed the directory.
        with suppress(FileNotFoundError), (place / _LOCKED_FILE).open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                continue
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _exclusive(places: Path) -> Iterator[None]:
    """Keeps others from removing a directory that is being created and is not locked yet."""
    with private.open_private(places / "lock", "a") as lock:
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
