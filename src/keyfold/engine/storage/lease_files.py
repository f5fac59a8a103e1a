"""The files of a lease: `lease/<epoch>.json`, of which the newest counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from keyfold.engine.storage.contract import Storage

_DIRECTORY: Final = "lease"
_SUFFIX: Final = ".json"
# The newest epoch and the previous one, which shows whose it was.
_KEPT: Final = 2


@dataclass(frozen=True)
class LeaseRecord:
    """The record of a holder. Times of day are informational, since the clocks of hosts differ."""

    epoch: int
    host: Mapping[str, Any]
    python: Mapping[str, Any]
    jvm: Mapping[str, Any] | None
    seconds: float  # how long it is valid after its last heartbeat
    since: str
    at: str  # of the last heartbeat
    expires: str
    beat: int = 0
    released: bool = False
    layout: int = 1

    @property
    def content(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return f"pid {self.python.get('pid', '?')} on {self.host.get('name', '?')}"


@dataclass(frozen=True)
class LeaseFile:
    """A lease as found on disk. `record` is None if the content is invalid."""

    epoch: int
    content: bytes
    record: LeaseRecord | None

    @property
    def released(self) -> bool:
        """Whether its holder has released it."""
        return self.record is not None and self.record.released

    def seconds_or(self, default: float) -> float:
        """How long it is valid after its last heartbeat."""
        return default if self.record is None else self.record.seconds


class LeaseFiles:
    """The leases in an app's storage."""

    def __init__(self, storage: Storage, copy: Storage | None = None) -> None:
        """`copy`: a storage on the local disk, for commands that look up the holder of a remote home."""
        self._storage, self._copy = storage, copy

    def epochs(self) -> list[int]:
        """All epochs that have a file, oldest first."""
        names = (name.removesuffix(_SUFFIX) for name in self._storage.list(_DIRECTORY))
        return sorted(int(name) for name in names if name.isdecimal())

    def newest_epoch(self) -> int:
        """The newest epoch; 0 before the first."""
        return max(self.epochs(), default=0)

    def newest(self) -> LeaseFile | None:
        """The lease that counts."""
        while epoch := self.newest_epoch():
            found = self.read(epoch)
            if found is not None:  # else it has been removed meanwhile, so there is a newer one
                return found
        return None

    def read(self, epoch: int) -> LeaseFile | None:
        """The lease of an epoch; None if it has no file."""
        try:
            content = self._storage.read(_name(epoch))
        except FileNotFoundError:
            return None
        return LeaseFile(epoch, content, _parse(content))

    def create(self, record: LeaseRecord) -> bool:
        """Begins an epoch, unless another process has begun it or a later one."""
        created = self._storage.put_new(_name(record.epoch), record.content)
        # Files of old epochs are removed, so that the name of one can be free again.
        if not created or self.newest_epoch() != record.epoch:
            return False
        if self._copy is not None:
            self._copy.put(_name(record.epoch), record.content, durable=False)
        return True

    def write(self, record: LeaseRecord) -> None:
        """Replaces the record of an epoch; not durably, since a power cut ends every lease."""
        for storage in (self._storage, *([self._copy] if self._copy else [])):
            storage.put(_name(record.epoch), record.content, durable=False)

    def remove_old(self) -> None:
        """Removes all but the newest epochs."""
        for epoch in self.epochs()[:-_KEPT]:
            self._storage.delete(_name(epoch))
            if self._copy is not None:
                self._copy.delete(_name(epoch))


def _name(epoch: int) -> str:
    return f"{_DIRECTORY}/{epoch}{_SUFFIX}"


def _parse(content: bytes) -> LeaseRecord | None:
    try:
        found = LeaseRecord(**json.loads(content))
        whole = "name" in found.host and int(found.python["pid"]) > 0 and found.seconds > 0
    except (ValueError, TypeError, LookupError):
        return None
    return found if whole else None
