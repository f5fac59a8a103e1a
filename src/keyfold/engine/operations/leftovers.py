"""Removes what a command that was interrupted or failed has written beside the files of a home."""

from __future__ import annotations

from contextlib import suppress

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage


def remove(home: AppHome, directory: str) -> None:
    """Removes a directory, and what the local disk has of it if the home is elsewhere: views of tables."""
    home.storage.delete(directory)
    if home.remote is not None:
        LocalStorage(home.path).delete(directory)


def discard(home: AppHome, directory: str) -> None:
    """Removes a directory that nothing depends on, as far as that is possible now.

    Tasks of Spark that are not told yet may still write into it. What is left goes with the next command, and
    must not take the place of the error, or of the Ctrl-C, that led here.
    """
    with suppress(OSError):
        remove(home, directory)
