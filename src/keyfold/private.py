"""Creates files and directories that only their owner can read, independent of the umask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any, Final

DIRECTORY: Final = 0o700
FILE: Final = 0o600


def directory(path: Path) -> Path:
    """Creates a directory and its missing parents; existing ones stay as they are."""
    try:
        path.mkdir(DIRECTORY, exist_ok=True)
    except FileNotFoundError:
        directory(path.parent)
        path.mkdir(DIRECTORY, exist_ok=True)
    return path


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Like `path.open`; a file that it creates is private from the start."""
    return open(path, mode, opener=_opener, **options)


def write(path: Path, content: bytes) -> None:
    """Writes a file, which may exist already."""
    with open_private(path, "wb") as file:
        file.write(content)


def tighten(path: Path) -> None:
    """Removes the permissions of all but the owner from a file or directory, if it exists and is ours."""
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(DIRECTORY if path.is_dir() else FILE)
    except OSError:
        return  # owned by another user, who decides who reads it


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE)
