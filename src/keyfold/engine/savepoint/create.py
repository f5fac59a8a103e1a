"""Makes a savepoint of a stopped app."""

from __future__ import annotations

from collections.abc import Sequence

from keyfold.engine.savepoint import unfinished
from keyfold.engine.savepoint.capture import Progress, captured, silent
from keyfold.engine.savepoint.manifest import Savepoint
from keyfold.engine.savepoint.savepoints import checked_name
from keyfold.engine.storage.layout import AppHome


def create(
    place: AppHome,
    name: str,
    tables: Sequence[str] = (),
    why: str | None = None,
    progress: Progress = silent,
) -> Savepoint:
    """Makes a savepoint of some tables, or of all, of an app that no process runs."""
    checked_name(name)
    with unfinished.held(place):
        return captured(place, name, tables, why, progress)
