"""Connections to one SQLite file: many that read, and one that writes at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import quote
from weakref import WeakValueDictionary

from keyfold import private
from keyfold.errors import HomeUnusable, QueryError

_BUSY_SECONDS: Final = 60
_IDLE: Final = 4
_CACHE_KIB: Final = 64 * 1024
_LOG_BYTES: Final = 64 * 1024 * 1024
WAY_OUT: Final = (
    "bring the file back from a backup of the home; or stop the app, move views.db, views.db-wal and "
    "views.db-shm away, and start it: it makes the views again from the state. Closed windows that are not "
    "kept are in the view alone (`sqlite3 views.db .recover` may save them), and tables of patterns and "
    "processors have to be reset then (`keyfold reset`)"
)


class Gate:
    """The right to write to one database in this process, shared by all stores that have it open.

    SQLite has one writer. `writing` is held only while rows go from memory or a spool to SQLite, unless a
    batch is the only one under way: see `BatchWrite`.
    """

    _all: ClassVar[WeakValueDictionary[Path, Gate]] = WeakValueDictionary()
    _all_lock = threading.Lock()

    def __init__(self) -> None:
        self.writing = threading.Lock()
        self.batches = 0
        self.counting = threading.Lock()

    @classmethod
    def of(cls, path: Path) -> Gate:
        """The gate of a database."""
        with cls._all_lock:
            gate = cls._all.get(path.resolve())
            if gate is None:
                gate = cls._all[path.resolve()] = cls()
            return gate


class Readers:
    """Read-only connections, kept for reuse; each is used by one reader at a time.

    A scan that is under way keeps its connection, and with it the moment it sees, so others need their own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[tuple[tuple[int, int], sqlite3.Connection]] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, so that all it reads is of one moment."""
        file = self._file()
        connection, reusable = self._take(file)
        try:
            yield connection
        except sqlite3.DatabaseError as error:
            if damaged(str(error)):
                raise _unreadable(self._path, error) from error
            raise
        finally:
            self._give_back(file, connection, reusable)

    def close(self) -> None:
        """Closes the idle connections now, and those in use when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _file(self) -> tuple[int, int]:
        # A home that was removed and made again has another file under the same name.
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            hint = "run the app once: its tables get their views at the first start"
            raise QueryError(
                "there are no views yet", reason="not_ready", where=self._path, hint=hint
            ) from None
        except OSError as error:
            raise _unreadable(self._path, error) from error
        return status.st_dev, status.st_ino

    def _take(self, file: tuple[int, int]) -> tuple[sqlite3.Connection, bool]:
        stale = []
        try:
            while True:
                with self._lock:
                    if not self._idle:
                        break
                    known, connection = self._idle.pop()
                if known == file:
                    connection.execute("BEGIN")
                    return connection, True
                stale.append(connection)
        finally:
            for connection in stale:
                connection.close()
        return _reader(self._path)

    def _give_back(self, file: tuple[int, int], connection: sqlite3.Connection, reusable: bool) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            reusable = False
        with self._lock:
            if reusable and not self._closed and len(self._idle) < _IDLE:
                self._idle.append((file, connection))
                return
        connection.close()


def writer(path: Path) -> sqlite3.Connection:
    """A connection that writes; makes the file and its directory."""
    try:
        private.directory(path.parent)
        # SQLite gives its -wal and -shm files the mode of this one. One that exists is left alone: closing it
        # would end the locks that other connections of this process have on it.
        with suppress(FileExistsError):
            private.opened(path, "xb").close()
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # Spark commits a batch after the view does. If a power cut could take back the view's last commit and
        # leave Spark's, those rows would be lost; FULL costs one fsync per batch.
        connection.execute("PRAGMA synchronous = FULL")
        # A big batch makes a big log; the next commits reuse it, down to this size.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KIB}")
        # Debian's SQLite overwrites what it frees with zeros unless told.
        connection.execute("PRAGMA secure_delete = OFF")
    except (OSError, sqlite3.Error) as error:
        hint = WAY_OUT if damaged(str(error)) else "a directory on a local disk that can be written to"
        raise HomeUnusable(f"the views can't be opened: {error}", where=path, hint=hint) from error
    return connection


def _reader(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A read-only connection with a transaction begun, and whether it may be used again."""
    try:
        return _open(path, "mode=ro"), True
    except sqlite3.Error as error:
        # SQLite wants to write a -shm file even to read. In a directory that can't be written to, and where
        # no writer left a -wal file, the file is complete in itself. Not kept: a writer may come later.
        if os.path.exists(f"{path}-wal") or os.access(path.parent, os.W_OK):
            raise _unreadable(path, error) from error
    try:
        return _open(path, "mode=ro&immutable=1"), False
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def _open(path: Path, options: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.resolve()))}?{options}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _unreadable(path: Path, error: Exception) -> QueryError:
    hint = WAY_OUT if damaged(str(error)) else None
    return QueryError(f"the views can't be read: {error}", reason="not_ready", where=path, hint=hint)


def damaged(text: str) -> bool:
    """Whether SQLite's words are those on a file that is no longer a whole database."""
    return "disk image is malformed" in text or "file is not a database" in text
