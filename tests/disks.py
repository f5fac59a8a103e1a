"""A small disk of a test's own, which it can fill."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system in memory. Without the right to mount one, the test, marked `mount`, skips."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a disk: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        # Spark keeps state stores, and with them some files, open for a while.
        subprocess.run(["umount", "--lazy", str(place)], check=True)
