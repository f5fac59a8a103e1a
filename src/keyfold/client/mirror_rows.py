"""The rows of a mirror: in memory, or in a SQLite file. Rows and position change together."""

from __future__ import annotations

import json
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keyfold import private
from keyfold.errors import QueryError

Row = dict[str, Any]


@dataclass(frozen=True)
class At:
    """How far a mirror is: the position behind its last batch, None before the first rows; and its key."""

    position: str | None = None
    batch: int | None = None
    keys: tuple[str, ...] = ()


class MirrorRows(ABC):
    """Rows by key, as text, and how far they are. Thread-safe."""

    at: At

    @abstractmethod
    def get(self, key: str) -> Row | None:
        """The row of a key."""

    @abstractmethod
    def all(self) -> list[Row]:
        """All rows, as of one batch."""

    @abstractmethod
    def change(self, rows: Mapping[str, Row | None], at: At, *, replace: bool) -> None:
        """Changes rows, None for one that is deleted; with `replace` all others are deleted too."""

    @abstractmethod
    def close(self) -> None:
        """Releases what it holds."""


class InMemory(MirrorRows):
    """Rows in a dict."""

    def __init__(self) -> None:
        self.at = At()
        self._rows: dict[str, Row] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Row | None:
        with self._lock:
            row = self._rows.get(key)
        return None if row is None else dict(row)

    def all(self) -> list[Row]:
        with self._lock:
            return [dict(row) for row in self._rows.values()]

    def change(self, rows: Mapping[str, Row | None], at: At, *, replace: bool) -> None:
        with self._lock:
            if replace:
                self._rows = {}
            for key, row in rows.items():
                if row is None:
                    self._rows.pop(key, None)
                else:
                    self._rows[key] = row
            self.at = at

    def close(self) -> None:
        """Rows stay until nobody has them."""


_TABLES: Final = """
CREATE TABLE IF NOT EXISTS mirror (name TEXT NOT NULL, position TEXT, batch INTEGER, keys TEXT);
CREATE TABLE IF NOT EXISTS rows (key TEXT PRIMARY KEY, row TEXT NOT NULL) WITHOUT ROWID;
"""


class InFile(MirrorRows):
    """Rows in a SQLite file: the table `rows` has them as JSON, the table `mirror` says how far they are."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._lock = threading.Lock()
        if not path.exists():
            private.directory(path.parent)
            private.open_private(path, "xb").close()
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self.at = self._begin()
        except sqlite3.Error as error:
            self._connection.close()
            raise self._unusable(f"the file can't be used: {error}") from None
        except QueryError:
            self._connection.close()
            raise

    def _begin(self) -> At:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_TABLES)
        with self._transaction():
            found = self._connection.execute("SELECT name, position, batch, keys FROM mirror").fetchone()
            if found is None:
                self._connection.execute("INSERT INTO mirror VALUES (?, NULL, NULL, '[]')", [self._name])
                return At()
        if found[0] != self._name:
            raise self._unusable(f"the file mirrors {found[0]}")
        return At(found[1], found[2], tuple(json.loads(found[3])))

    def get(self, key: str) -> Row | None:
        with self._lock:
            found = self._connection.execute("SELECT row FROM rows WHERE key = ?", [key]).fetchone()
        return None if found is None else json.loads(found[0])

    def all(self) -> list[Row]:
        with self._lock:
            found = self._connection.execute("SELECT row FROM rows").fetchall()
        return [json.loads(row) for (row,) in found]

    def change(self, rows: Mapping[str, Row | None], at: At, *, replace: bool) -> None:
        upserts = [(key, json.dumps(row, ensure_ascii=False)) for key, row in rows.items() if row is not None]
        deletes = [(key,) for key, row in rows.items() if row is None]
        given = (at.position, at.batch, json.dumps(at.keys), self.at.position)
        with self._lock, self._transaction():
            moved = self._connection.execute(
                "UPDATE mirror SET position = ?, batch = ?, keys = ? WHERE position IS ?", given
            )
            if moved.rowcount != 1:
                raise self._unusable("another process has changed the file")
            if replace:
                self._connection.execute("DELETE FROM rows")
            self._connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", upserts)
            self._connection.executemany("DELETE FROM rows WHERE key = ?", deletes)
        self.at = at

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def _unusable(self, what: str) -> QueryError:
        return QueryError(
            what, where=self._name, given=str(self._path), hint="a file of its own for each mirror"
        )
