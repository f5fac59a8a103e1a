"""The savepoints of an app: their names, their files, and how they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from keyfold.engine.savepoint import manifest as manifests
from keyfold.engine.savepoint.manifest import FILE, Savepoint
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import BadName, QueryError, SavepointUnusable, choice, did_you_mean
from keyfold.views.stores import COPY

FILES: Final = "files"
"""The directory of a savepoint that mirrors the app's home."""
VIEW: Final = COPY
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def checked_name(name: str) -> str:
    """A name that is a valid directory name on any file system."""
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

    def __init__(self, home: AppHome) -> None:
        self.app, self._storage = home.path.name, home.storage

    def storage(self, name: str) -> Storage:
        """The directory of one savepoint."""
        return self._storage.below(f"savepoints/{checked_name(name)}")

    def names(self) -> list[str]:
        """The complete savepoints, by name."""
        directories = self._storage.list("savepoints")
        return [name for name in directories if FILE in self._storage.list(f"savepoints/{name}")]

    def all(self) -> list[Savepoint]:
        """The complete savepoints, oldest first."""
        return sorted((self.find(name) for name in self.names()), key=lambda found: found.at)

    def find(self, name: str) -> Savepoint:
        """A savepoint, or `QueryError` not_found."""
        return manifests.decode(self.manifest(name), StoredFile(self.storage(name), FILE))

    def manifest(self, name: str) -> bytes:
        """The manifest of a savepoint, which may be damaged, or `QueryError` not_found."""
        try:
            return self.storage(name).read(FILE)
        except FileNotFoundError:
            known = self.names()
            raise QueryError(
                f"no savepoint {name} of app {self.app}",
                reason="not_found",
                given=name,
                hint=did_you_mean(name, known, choice(known) if known else "there are none"),
            ) from None

    def plan(self, name: str) -> StoredApp:
        """What the app had recorded when the savepoint was made."""
        return StoredApp.from_json(json.loads(self.storage(name).read(f"{FILES}/app.json")))

    def has(self, name: str, manifest: str) -> bool:
        """Whether there is a savepoint whose manifest has this SHA-256."""
        try:
            return self.storage(name).sha256(FILE) == manifest
        except FileNotFoundError:
            return False

    @contextmanager
    def reading(self, name: str) -> Iterator[Savepoint]:
        """A savepoint to read; an error at the end if it was deleted, or a key erased from it, meanwhile.

        Both remove the manifest before they change any other file: as long as the manifest is unchanged, so
        are the files. The caller must not rely on the result before the end.
        """
        content = self.manifest(name)
        try:
            yield manifests.decode(content, StoredFile(self.storage(name), FILE))
        except Exception as error:
            if not self._is_still(name, content):
                raise self._missing_error(name) from error
            raise
        if not self._is_still(name, content):
            raise self._missing_error(name)

    def _is_still(self, name: str, manifest: bytes) -> bool:
        try:
            return self.storage(name).read(FILE) == manifest
        except FileNotFoundError:
            return False

    def _missing_error(self, name: str) -> SavepointUnusable:
        return SavepointUnusable(
            f"savepoint {name} of {self.app} was deleted or changed while it was read; nothing was changed "
            "by this command",
            given=name,
            hint="keyfold savepoint list shows the existing ones; if it still exists, repeat the command",
        )

    def add(self, savepoint: Savepoint) -> bool:
        """Completes a savepoint whose files are in place; False if there is one of that name."""
        return self.storage(savepoint.name).put_new(FILE, savepoint.encode())

    def sweep(self) -> None:
        """Removes what interrupted commands left, while no other savepoint is being made."""
        complete = set(self.names())
        for name in self._storage.list("savepoints"):
            if name not in complete:
                self._storage.delete(f"savepoints/{name}")
