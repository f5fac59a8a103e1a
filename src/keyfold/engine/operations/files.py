"""Copies files of a home, several at a time, and makes their names survive a power cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Final, TypeVar

from keyfold.engine.storage.contract import Storage

T = TypeVar("T")
R = TypeVar("R")

# On a remote file system each file takes a while.
_AT_ONCE: Final = 8


def copy_files(storage: Storage, names: Sequence[str], source: str, target: str) -> None:
    """Gives files second names: `source` at the beginning of a name is replaced by `target`."""
    in_parallel(names, lambda name: storage.copy(f"{source}{name}", f"{target}{name}"))
    flush_directories(storage, (f"{target}{name}" for name in names))


def send_files(source: Storage, target: Storage, names: Mapping[str, str]) -> None:
    """Copies files to another home; `names` has the new name of each."""

    def send(name: str) -> None:
        with source.fetch(name) as file:
            target.send(file, names[name])

    in_parallel(names, send)
    flush_directories(target, names.values())


def flush_directories(storage: Storage, files: Iterable[str]) -> None:
    """Makes the names of files survive a power cut; their content was written long before."""
    for directory in {str(parent) for file in files for parent in PurePosixPath(file).parents}:
        if directory != ".":
            storage.flush(directory)


def in_parallel(items: Iterable[T], act: Callable[[T], R]) -> list[R]:
    """The results for all items, several at a time."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="keyfold-files") as threads:
        return list(threads.map(act, items))
