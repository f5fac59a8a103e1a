"""Makes a savepoint of a stopped app."""

from __future__ import annotations

from collections.abc import Sequence

from keyfold.engine.recovery import table_removal
from keyfold.engine.savepoint import restore
from keyfold.engine.savepoint.capture import Progress, captured, silent
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import checked_name
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.lease import Lease


def create(
    place: AppHome,
    name: str,
    tables: Sequence[str] = (),
    why: str | None = None,
    progress: Progress = silent,
) -> Savepoint:
    """Makes a savepoint of some tables, or of all, of an app that no process runs."""
    checked_name(name)
    lease = Lease(place).take()
    try:
        table_removal.finish(place)
        restore.finish(place)
        return captured(place, name, tables, why, progress)
    finally:
        lease.release()
