"""The SQLite file that has an app's views, or a copy of views."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from keyfold import private
from keyfold.errors import HomeUnusable
from keyfold.views.contract import Views
from keyfold.views.sqlite import connections
from keyfold.views.sqlite.store import SqliteStore


@dataclass(frozen=True)
class SqliteFile(Views):
    """Views in a file; SQLite keeps a log of writes and an index of that beside it while it is open."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def is_in(self, directory: Path) -> bool:
        return self.path.parent == directory

    def exists(self) -> bool:
        return self.path.exists()

    def open(self, *, read_only: bool) -> SqliteStore:
        return SqliteStore(self.path, read_only=read_only)

    def remove(self) -> None:
        # The log first: SQLite would apply it to a file that takes the place of this one.
        for suffix in ("-wal", "-shm", ""):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def restore_from(self, copy: Path) -> None:
        try:
            with closing(connections.reader(copy)) as source:
                self._replace(source)
        except sqlite3.Error as error:
            raise HomeUnusable(
                f"cannot restore the views: {error}",
                where=self.path,
                given=copy,
                hint="free space on the disk",
            ) from error

    def _replace(self, source: sqlite3.Connection) -> None:
        """Replaces the content in one transaction, or the file if SQLite can't do that."""
        try:
            with connections.WriteLock.of(self.path).lock, closing(connections.writer(self.path)) as target:
                source.backup(target)
        except (HomeUnusable, sqlite3.Error) as error:
            # "readonly": the pages of the copy have another size.
            if not connections.reports_damage(str(error)) and "readonly" not in str(error):
                raise
            self.remove()
            private.open_private(self.path, "xb").close()
            with closing(sqlite3.connect(self.path)) as target:
                source.backup(target)
