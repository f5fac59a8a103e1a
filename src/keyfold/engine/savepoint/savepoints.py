"""The savepoints of an app: which there are, where their files are, and how they go."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from keyfold.engine.savepoint import manifest as manifests
from keyfold.engine.savepoint.manifest import FILE, Savepoint
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import BadName, QueryError, choice, did_you_mean

FILES: Final = "files"
"""The directory of a savepoint that mirrors the app's home."""
VIEW: Final = "views.db"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def checked_name(name: str) -> str:
    """A name that can be a directory on any file system."""
    if not _NAME.fullmatch(name):
        raise BadName(
            "a savepoint's name has letters, digits, dots, dashes and underscores, and begins with a letter "
            "or a digit",
            given=name,
            hint="before-upgrade, or 2026-11-17",
        )
    return name


class Savepoints:
    """The savepoints below an app's home, on any storage."""

    def __init__(self, place: AppHome) -> None:
        self.app, self._storage = place.path.name, place.storage

    def storage(self, name: str) -> Storage:
        """The directory of one savepoint."""
        return self._storage.below(f"savepoints/{checked_name(name)}")

    def names(self) -> list[str]:
        """The savepoints that are complete, by name."""
        directories = self._storage.list("savepoints")
        return [name for name in directories if FILE in self._storage.list(f"savepoints/{name}")]

    def all(self) -> list[Savepoint]:
        """The savepoints that are complete, oldest first."""
        return sorted((self.find(name) for name in self.names()), key=lambda found: found.at)

    def find(self, name: str) -> Savepoint:
        """A savepoint, or `QueryError` not_found."""
        file = StoredFile(self.storage(name), FILE)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            known = self.names()
            raise QueryError(
                f"no savepoint {name} of app {self.app}",
                reason="not_found",
                given=name,
                hint=did_you_mean(name, known, choice(known) if known else "there are none"),
            ) from None
        return manifests.decode(content, file)

    def add(self, savepoint: Savepoint) -> bool:
        """Completes a savepoint whose files are in place; False if there is one of that name."""
        return self.storage(savepoint.name).put_new(FILE, savepoint.encode())

    def delete(self, name: str) -> None:
        """Deletes a savepoint; what an interruption leaves is no savepoint, and `sweep` removes it."""
        storage = self.storage(name)
        storage.delete(FILE)
        self._storage.delete(f"savepoints/{name}")

    def sweep(self) -> None:
        """Removes what interrupted commands left, while nobody else makes a savepoint."""
        complete = set(self.names())
        for name in self._storage.list("savepoints"):
            if name not in complete:
                self._storage.delete(f"savepoints/{name}")

    def prune(self, keep: int, older_than: timedelta | None) -> list[Savepoint]:
        """Deletes all but the newest `keep`, as far as they are older; returns what was deleted."""
        found = self.all()
        limit = None if older_than is None else datetime.now(UTC) - older_than
        old = [one for one in found[: max(0, len(found) - keep)] if limit is None or one.at < limit]
        for one in old:
            self.delete(one.name)
        return old
