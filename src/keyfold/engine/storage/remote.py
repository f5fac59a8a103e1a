"""Storage on any file system that Spark can write, through the kernel: HDFS, S3 and others."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from keyfold.engine.storage.contract import FileFacts, check_name
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.api import RemoteFiles, SessionApi

T = TypeVar("T")


class SparkStorage:
    """Files below a URI, with the credentials, settings and guarantees of a Spark session.

    `kernel`: the kernel's entry point in the session's JVM.
    """

    def __init__(self, kernel: SessionApi, spark: Any, root: str) -> None:
        self.root, self._prefix = root.rstrip("/"), ""
        self._files: RemoteFiles = self._call("", lambda: kernel.files(spark._jsparkSession, self.root))
        self.root = self._files.uri()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparkStorage) and other.root == self.root

    def __hash__(self) -> int:
        return hash(self.root)

    def __repr__(self) -> str:
        return f"<storage {self.root}>"

    def read(self, name: str) -> bytes:
        found = self._call(name, lambda: self._files.read(self._name(name)))
        if found is None:
            raise self._missing(name)
        return bytes(found)

    def list(self, name: str = "") -> list[str]:
        return sorted(json.loads(self._call(name, lambda: self._files.list(self._name(name, root=True)))))

    def put(self, name: str, content: bytes, *, durable: bool = True) -> None:
        reached(FaultPoint.STORAGE_SENDING, name=name)
        self._call(name, lambda: self._files.put(self._name(name), content, durable))
        reached(FaultPoint.STORAGE_NAMED, name=name)

    def put_new(self, name: str, content: bytes) -> bool:
        reached(FaultPoint.STORAGE_SENDING, name=name)
        done = self._call(name, lambda: self._files.putNew(self._name(name), content))
        if done:
            reached(FaultPoint.STORAGE_NAMED, name=name)
        return done

    def delete(self, name: str, *, durable: bool = True) -> None:
        self._call(name, lambda: self._files.delete(self._name(name)))

    def directory(self, name: str = "") -> None:
        self._call(name, lambda: self._files.directory(self._name(name, root=True)))

    def size(self, name: str = "") -> int:
        return self._call(name, lambda: self._files.size(self._name(name, root=True)))

    def sweep(self, name: str = "") -> None:
        self._call(name, lambda: self._files.sweep(self._name(name, root=True)))

    def uri(self, name: str = "") -> str:
        return f"{self.root}/{check_name(name)}" if name else self.root

    def flush(self, name: str) -> None:
        """Does nothing: Spark's file is closed, and stored as durably as the file system allows."""

    def below(self, name: str) -> SparkStorage:
        found = copy(self)
        found.root, found._prefix = self.uri(check_name(name)), f"{self._name(name)}/"
        return found

    def files(self, name: str = "") -> tuple[FileFacts, ...]:
        found = json.loads(self._call(name, lambda: self._files.files(self._name(name, root=True))))
        return tuple(sorted(FileFacts(below, size) for below, size in found.items()))

    def sha256(self, name: str) -> str:
        found = self._call(name, lambda: self._files.sha256(self._name(name)))
        if found is None:
            raise self._missing(name)
        return found

    def copy(self, name: str, target: str) -> None:
        if not self._call(name, lambda: self._files.copy(self._name(name), self._name(target))):
            raise self._missing(name)

    def send(self, path: Path, name: str) -> None:
        self._call(name, lambda: self._files.upload(str(path), self._name(name)))

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        with TemporaryDirectory(prefix="keyfold-fetched-") as directory:
            path = Path(directory) / check_name(name).rpartition("/")[2]
            if not self._call(name, lambda: self._files.download(self._name(name), str(path))):
                raise self._missing(name)
            yield path

    def _name(self, name: str, *, root: bool = False) -> str:
        """A name below the root of the kernel's files, of which this storage may be a part."""
        return f"{self._prefix}{check_name(name, root=root)}".rstrip("/")

    def _missing(self, name: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "No such file", self.uri(name))

    def _call(self, name: str, call: Callable[[], T]) -> T:
        """Calls the kernel; a Java exception becomes an `OSError` with its text."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return call()
        except Py4JJavaError as error:
            text = str(error.java_exception.toString()).partition("\n")[0]
        except Py4JError as error:
            text = f"Java has ended, or does not answer: {error}"
        if "FileNotFoundException" in text:
            raise FileNotFoundError(errno.ENOENT, text, self.uri(name)) from None
        denied = "AccessControlException" in text or "AccessDenied" in text
        kind = PermissionError if denied else OSError
        raise kind(errno.EACCES if denied else errno.EIO, text, self.uri(name)) from None
