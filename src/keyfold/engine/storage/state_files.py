"""The files of a query's state in its checkpoint: metadata, schemas and changelogs of its operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.stored_file import StoredFile

_VERSION: Final = re.compile(
    r"state/\d+/\d+/(?:[^/]+/)*(\d+)[_.][^/]*(?:changelog|zip|delta|snapshot)(?:\.crc)?"
)
"""A version of a state; its number is that of its batch plus one."""
_METADATA: Final = re.compile(r"state/\d+/_metadata/v2/(\d+)")


@dataclass(frozen=True)
class StateFiles:
    """The directory `state` of a checkpoint, with a directory for each stateful operator."""

    storage: Storage

    @property
    def directory(self) -> StoredFile:
        return StoredFile(self.storage, "state")

    def exist(self) -> bool:
        """Whether any operator has state."""
        return any(operator.files() for operator in self.directory.files())

    def metadata(self) -> list[StoredFile]:
        """The metadata files of the operators."""
        return [
            file
            for operator in self.directory.files()
            for file in (operator / "_metadata/v2").numbered_entries()
        ]

    def schemas(self) -> list[StoredFile]:
        """The schema files of the operators."""
        operators = self.directory.files()
        stores = [store for operator in operators for store in (operator / "_stateSchema").files()]
        return [file for store in stores for file in store.files()]

    def left_by(self, batch: int) -> list[str]:
        """The names of files that an uncommitted batch left."""
        return [file.name for file in self.storage.files() if _newer(file.name, batch)]

    def changelogs(self) -> list[StoredFile]:
        """The changelog files, newest versions first."""
        found = [file for file in _all_below(self.directory) if file.suffix == ".changelog"]
        return sorted(found, key=lambda file: -int(re.split(r"\D", file.name)[0] or 0))


def _newer(name: str, batch: int) -> bool:
    """Whether a file of the checkpoint belongs to the state of a batch, or of a later one."""
    version, metadata = _VERSION.fullmatch(name), _METADATA.fullmatch(name)
    if version is not None:
        return int(version[1]) > batch
    return metadata is not None and int(metadata[1]) >= batch


def _all_below(directory: StoredFile) -> Iterator[StoredFile]:
    """All files at any depth: whatever contains files is a directory."""
    for file in directory.files():
        below = list(_all_below(file)) if "." not in file.name else []
        yield from below or [file]
