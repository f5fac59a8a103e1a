"""Files and directories that only their owner can read, whatever the umask of the process says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any, Final

DIRECTORY: Final = 0o700
FILE: Final = 0o600


def directory(path: Path) -> Path:
    """The directory, made with those above it that are missing; ones that exist stay as they are."""
    try:
        path.mkdir(DIRECTORY, exist_ok=True)
    except FileNotFoundError:
        directory(path.parent)
        path.mkdir(DIRECTORY, exist_ok=True)
    return path


def opened(path: Path, mode: str, **options: Any) -> IO[Any]:
    """As `path.open`; a file that it makes is private from its first moment."""
    return open(path, mode, opener=_opener, **options)


def write(path: Path, content: bytes) -> None:
    """Writes a file that may be there already."""
    with opened(path, "wb") as file:
        file.write(content)


def tighten(path: Path) -> None:
    """Takes a file or directory from everyone but its owner, if it is there and is ours to change."""
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(DIRECTORY if path.is_dir() else FILE)
    except OSError:
        return  # another user's: they decide who reads it


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
