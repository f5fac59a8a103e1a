"""Connections to one SQLite file: many readers, and one writer at a time."""

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
from keyfold.views.contract import NoViewsYet

_BUSY_SECONDS: Final = 60
_IDLE: Final = 4
_CACHE_KIB: Final = 64 * 1024
_LOG_BYTES: Final = 64 * 1024 * 1024
RECOVERY: Final = (
    "restore the file from a backup of the home; or stop the app, move views.db, views.db-wal and "
    "views.db-shm away, and start the app, which rebuilds the views from state. Closed windows without "
    "`keep` exist only in the view (`sqlite3 views.db .recover` may save them), and tables of patterns and "
    "processors must then be reset (`keyfold reset`)"
)
"""What to do about a damaged database file."""


class WriteLock:
    """The write lock of one database in this process, shared by all stores that have it open.

    SQLite has one writer.
    """

    _all: ClassVar[WeakValueDictionary[Path, WriteLock]] = WeakValueDictionary()
    _all_lock = threading.Lock()

    def __init__(self) -> None:
        self.lock = threading.Lock()

    @classmethod
    def of(cls, path: Path) -> WriteLock:
        """The lock of a database file."""
        with cls._all_lock:
            found = cls._all.get(path.resolve())
            if found is None:
                found = cls._all[path.resolve()] = cls()
            return found


class Readers:
    """A pool of read-only connections; each serves one reader at a time.

    A running scan holds its connection, and with it its snapshot, so other reads need their own.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[tuple[tuple[int, int], sqlite3.Connection]] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction, so that all its reads see one snapshot."""
        file = self._file()
        connection, reusable = self._take(file)
        try:
            yield connection
        except sqlite3.DatabaseError as error:
            if reports_damage(str(error)):
                raise _unreadable(self._path, error) from error
            raise
        finally:
            self._return(file, connection, reusable)

    def close(self) -> None:
        """Closes idle connections now, and those in use when they are returned."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _file(self) -> tuple[int, int]:
        # A home that was deleted and created again has another file under the same name.
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            raise NoViewsYet(self._path) from None
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

    def _return(self, file: tuple[int, int], connection: sqlite3.Connection, reusable: bool) -> None:
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
    """A connection for writing; creates the file and its directory."""
    try:
        private.directory(path.parent)
        # SQLite gives its -wal and -shm files the mode of this file. An existing file is not opened here:
        # closing it would release the locks that other connections of this process hold on it.
        with suppress(FileExistsError):
            private.open_private(path, "xb").close()
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # Spark commits a batch after the view does. If a power failure could undo the view's last commit but
        # not Spark's, those rows would be lost. FULL costs one fsync per batch.
        connection.execute("PRAGMA synchronous = FULL")
        # A big batch leaves a big write-ahead log, which later commits truncate to this size.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KIB}")
        # Debian's SQLite overwrites freed pages with zeros by default.
        connection.execute("PRAGMA secure_delete = OFF")
    except (OSError, sqlite3.Error) as error:
        hint = RECOVERY if reports_damage(str(error)) else "a writable directory on a local disk"
        raise HomeUnusable(f"cannot open the views: {error}", where=path, hint=hint) from error
    return connection


def _reader(path: Path) -> tuple[sqlite3.Connection, bool]:
    """A read-only connection with an open transaction, and whether it may be reused."""
    try:
        return reader(path, "mode=ro"), True
    except sqlite3.Error as error:
        # SQLite needs a -shm file even to read. In a directory without write permission, and without a -wal
        # file of a writer, the file is complete by itself. Not reused: a writer may appear later.
        if os.path.exists(f"{path}-wal") or os.access(path.parent, os.W_OK):
            raise _unreadable(path, error) from error
    try:
        return reader(path, "mode=ro&immutable=1"), False
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error


def reader(path: Path, options: str = "mode=ro") -> sqlite3.Connection:
    """A read-only connection with an open transaction."""
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
    hint = RECOVERY if reports_damage(str(error)) else None
    return QueryError(f"cannot read the views: {error}", reason="not_ready", where=path, hint=hint)


def reports_damage(text: str) -> bool:
    """Whether SQLite's message says that the file is damaged or not a database."""
    return "disk image is malformed" in text or "file is not a database" in text
