"""Who holds a home."""

from __future__ import annotations

from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import current


def holder(home: AppHome) -> int | None:
    """The pid of the process on this host that holds a home."""
    record = current(home)
    return None if record is None else int(record.python["pid"])
