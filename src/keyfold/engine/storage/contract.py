"""The contract of a storage: small files by name below a root, on a local disk or Spark's file systems."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, order=True)
class FileFacts:
    """A file below a directory: its name relative to that, and its size."""

    name: str
    bytes: int


class Storage(Protocol):
    """Files below a root, each of which appears whole or not at all.

    Names are relative to the root, with `/` between directories, which exist while they contain files. Names
    that begin with a dot are internal to a storage: `list` omits them. Failures are raised as `OSError`.
    """

    def read(self, name: str) -> bytes:
        """The content of a file, or `FileNotFoundError`."""
        ...

    def list(self, name: str = "") -> list[str]:
        """The names of the files and directories in a directory, sorted; empty if it does not exist."""
        ...

    def put(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Writes a file, replacing an existing one.

        `durable=False`: the content is not needed after a power cut, so it need not be flushed to disk.
        """
        ...

    def put_new(self, name: str, content: bytes) -> bool:
        """Writes a file unless the name is taken; returns whether it did. One of several writers succeeds."""
        ...

    def delete(self, name: str, *, durable: bool = True) -> None:
        """Deletes a file or a directory with its contents, if it exists.

        `durable=False`: it may reappear after a power cut.
        """
        ...

    def directory(self, name: str = "") -> None:
        """Creates a directory, for readers that need it to exist before it contains files."""
        ...

    def size(self, name: str = "") -> int:
        """The bytes of a file, or of all files of a directory at any depth; 0 if it does not exist."""
        ...

    def sweep(self, name: str = "") -> None:
        """Removes what killed writers left in a directory that nobody is writing to."""
        ...

    def uri(self, name: str = "") -> str:
        """The path of a file or directory for Spark, with its scheme."""
        ...

    def flush(self, name: str) -> None:
        """Makes a file written by Spark survive a power cut, as far as this process can ensure that."""
        ...

    def below(self, name: str) -> Storage:
        """A directory as a storage of its own."""
        ...

    def files(self, name: str = "") -> tuple[FileFacts, ...]:
        """All files below a directory, at any depth, sorted by name, without hidden ones."""
        ...

    def sha256(self, name: str) -> str:
        """The SHA-256 of a file's content, or `FileNotFoundError`."""
        ...

    def copy(self, name: str, target: str) -> None:
        """Gives an immutable file a second name, without copying its content where that is possible."""
        ...

    def send(self, path: Path, name: str) -> None:
        """Writes a file from one on the local disk, which may be large."""
        ...

    def fetch(self, name: str) -> AbstractContextManager[Path]:
        """A local copy of a file, for readers that need a path; or `FileNotFoundError`."""
        ...


def check_name(name: str, *, root: bool = False) -> str:
    """A name that stays below the root; the empty name, for the root itself, only where that is allowed."""
    if name == "" and root:
        return name
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise ValueError(f"not a name below the root of a storage: {name!r}")
    return name
