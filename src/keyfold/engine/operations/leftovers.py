"""Removes what an interrupted or failed command has written beside the files of a home."""

from __future__ import annotations

from contextlib import suppress

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage


def remove(home: AppHome, directory: str) -> None:
    """Removes a directory and, if the home is remote, its counterpart on the local disk: views of tables."""
    home.storage.delete(directory)
    if home.remote is not None:
        LocalStorage(home.path).delete(directory)


def discard(home: AppHome, directory: str) -> None:
    """Removes a directory that nothing depends on, as far as possible now.

    Spark tasks that have not been stopped yet may still write into it. The next command removes the rest,
    which must not hide the error, or the Ctrl-C, that led here.
    """
    with suppress(OSError):
        remove(home, directory)
