"""Temporary directories of commands: removed at the end, and those of killed commands by the next one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """A temporary directory whose name has the id of this process."""
    _remove_left(prefix)
    with TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _remove_left(prefix: str) -> None:
    """Removes what killed processes of this user left behind."""
    import psutil

    for left in Path(gettempdir()).glob(f"{prefix}*-*"):
        pid = left.name.removeprefix(prefix).split("-")[0]
        with suppress(OSError):
            if pid.isdigit() and not psutil.pid_exists(int(pid)) and left.stat().st_uid == os.getuid():
                shutil.rmtree(left, ignore_errors=True)
