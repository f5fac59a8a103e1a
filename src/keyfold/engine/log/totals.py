"""The number of rows in batches that are no longer in a log, recorded in its `totals.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.stored_file import StoredFile

_FILE: Final = "totals.json"


@dataclass(frozen=True)
class Totals:
    """The totals of the batches up to one, whose changes are no longer in the log."""

    upto: int = -1
    counts: Mapping[str, int] = field(default_factory=dict)
    migrated: int | None = None
    """The batch up to which a migration removed all changes, since they had the old definition."""

    def record(self, storage: Storage) -> None:
        """Adds what is about to be removed from a log."""
        document: dict[str, Any] = {"layout": LAYOUT, "upto": self.upto, "counts": dict(self.counts)}
        if self.migrated is not None:
            document["migrated"] = self.migrated
        storage.put(_FILE, json.dumps(document).encode())


def read_totals(storage: Storage) -> Totals:
    """The totals of a log; those of no batch before anything was removed."""
    file = StoredFile(storage, _FILE)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return Totals()
    with manifests.readable(file):
        found = json.loads(content)
        manifests.require_layout(file, found)
        return Totals(int(found["upto"]), dict(found["counts"]), found.get("migrated"))
