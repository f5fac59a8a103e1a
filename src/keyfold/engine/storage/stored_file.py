"""A file in a storage: the counterpart of `Path`, with the operations that a storage has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from keyfold.engine.storage.contract import Storage


@dataclass(frozen=True)
class StoredFile:
    """A file or directory by its name below a storage's root; it need not exist."""

    storage: Storage
    path: str

    def __str__(self) -> str:
        """The file as people know it: a path on the local disk, or a URI."""
        return self.storage.uri(self.path).removeprefix("file://")

    def __truediv__(self, name: object) -> StoredFile:
        return StoredFile(self.storage, f"{self.path}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    @property
    def parent(self) -> StoredFile:
        return StoredFile(self.storage, str(PurePosixPath(self.path).parent))

    def files(self) -> list[StoredFile]:
        """The files and directories in a directory, without hidden ones."""
        return [self / name for name in self.storage.list(self.path)]

    def numbered_entries(self) -> list[StoredFile]:
        """The files and directories whose names begin with a number, as the entries of Spark's logs do."""
        return [file for file in self.files() if file.name[0].isdecimal()]

    def exists(self) -> bool:
        """Whether such a file or directory exists."""
        directory, _, name = self.path.rpartition("/")
        return name in self.storage.list(directory)

    def read_bytes(self) -> bytes:
        return self.storage.read(self.path)

    def put(self, content: bytes) -> None:
        """Writes the file, replacing an existing one."""
        self.storage.put(self.path, content)

    def delete(self) -> None:
        """Deletes the file or directory, if it exists."""
        self.storage.delete(self.path)

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)
