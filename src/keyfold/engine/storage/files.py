"""Durable writes: files that appear whole or not at all, and survive a power cut."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from keyfold import private


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Writes a temporary file and renames it: readers and crashes see the old content or the new.

    Pass `durable=False` for content that is not needed after a power cut.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    private.write(temporary, content)
    rename_durably(temporary, path) if durable else os.replace(temporary, path)


def rename_durably(temporary: Path, target: Path) -> None:
    """Renames a file so that content and name are both on disk when this returns."""
    sync(temporary)
    os.replace(temporary, target)
    sync(target.parent)


def temporary_beside(path: Path) -> Path:
    """A hidden name in the same directory that no other process or thread uses."""
    return path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")


def sync(path: Path) -> None:
    """Flushes a file's content, or a directory's entries, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
