"""Storage on a local disk: whole files by link and rename, flushed to disk, readable by their owner alone."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from keyfold import private
from keyfold.engine.storage.contract import FileFacts, check_name
from keyfold.engine.storage.files import sync, temporary_beside
from keyfold.fault_points import FaultPoint, reached

# The errors of file systems without hard links.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, repr=False)
class LocalStorage:
    """Files below a directory."""

    root: Path

    def __repr__(self) -> str:
        return f"<storage {self.root}>"

    def read(self, name: str) -> bytes:
        return self._path(name).read_bytes()

    def list(self, name: str = "") -> list[str]:
        try:
            found = os.listdir(self._path(name, root=True))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entry for entry in found if not entry.startswith("."))

    def put(self, name: str, content: bytes, *, durable: bool = True) -> None:
        target = self._path(name)
        with _write_temporary(name, target, content, durable) as temporary:
            os.replace(temporary, target)
            reached(FaultPoint.STORAGE_NAMED, name=name)
        if durable:
            sync(target.parent)

    def put_new(self, name: str, content: bytes) -> bool:
        target = self._path(name)
        if target.exists():
            return False
        with _write_temporary(name, target, content, durable=True) as temporary:
            if not _name_if_free(temporary, target):
                return False
            reached(FaultPoint.STORAGE_NAMED, name=name)
        sync(target.parent)
        return True

    def delete(self, name: str, *, durable: bool = True) -> None:
        path = self._path(name)
        try:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except FileNotFoundError:
            return
        if durable:
            sync(path.parent)

    def directory(self, name: str = "") -> None:
        private.directory(self._path(name, root=True))

    def size(self, name: str = "") -> int:
        path, total = self._path(name, root=True), 0
        for file in (path, *path.rglob("*")):
            # Another process may be deleting files meanwhile.
            with suppress(FileNotFoundError):
                total += file.lstat().st_size if not file.is_dir() else 0
        return total

    def sweep(self, name: str = "") -> None:
        for file in self._path(name, root=True).glob(".*"):
            file.unlink(missing_ok=True)

    def uri(self, name: str = "") -> str:
        # Spark does not decode percent-encoded paths.
        return f"file://{self._path(name, root=True).absolute()}"

    def flush(self, name: str) -> None:
        path = self._path(name)
        if path.exists():
            sync(path)
            sync(path.parent)

    def below(self, name: str) -> LocalStorage:
        return LocalStorage(self._path(name))

    def files(self, name: str = "") -> tuple[FileFacts, ...]:
        top = self._path(name, root=True)
        found = []
        for directory, below, names in os.walk(top):
            below[:] = [entry for entry in below if not entry.startswith(".")]
            for entry in names:
                path = Path(directory) / entry
                if not entry.startswith("."):
                    found.append(FileFacts(path.relative_to(top).as_posix(), path.stat().st_size))
        return tuple(sorted(found))

    def sha256(self, name: str) -> str:
        with self._path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def copy(self, name: str, target: str) -> None:
        path = private.directory(self._path(target).parent) / self._path(target).name
        try:
            os.link(self._path(name), path)
        except OSError as error:
            if error.errno not in (*_NO_LINKS, errno.EXDEV, errno.EMLINK):
                raise
            self.send(self._path(name), target)

    def send(self, path: Path, name: str) -> None:
        target = self._path(name)
        private.directory(target.parent)
        temporary = temporary_beside(target)
        try:
            with path.open("rb") as source, private.open_private(temporary, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            sync(temporary)
            os.replace(temporary, target)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        path = self._path(name)
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "No such file", str(path))
        yield path

    def _path(self, name: str, *, root: bool = False) -> Path:
        return self.root / check_name(name, root=root)


@contextmanager
def _write_temporary(name: str, target: Path, content: bytes, durable: bool) -> Iterator[Path]:
    """The content under a temporary name, which is removed afterwards."""
    private.directory(target.parent)
    temporary = temporary_beside(target)
    try:
        private.write(temporary, content)
        reached(FaultPoint.STORAGE_WRITTEN, name=name)
        if durable:
            sync(temporary)
            reached(FaultPoint.STORAGE_FLUSHED, name=name)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _name_if_free(temporary: Path, target: Path) -> bool:
    """Gives a file its name unless that is taken, also with concurrent writers."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        # On NFS a response may get lost: the link was made, and the repeated request finds it.
        return temporary.stat().st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename_if_free(temporary, target)
    return True


def _rename_if_free(temporary: Path, target: Path) -> bool:
    """The same without hard links: writers take turns by a lock on the directory, which ends with them."""
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if target.exists():
            return False
        os.replace(temporary, target)
        return True
    finally:
        os.close(descriptor)
