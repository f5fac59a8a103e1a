"""Whether all followers of a table's log have read it completely."""

from __future__ import annotations

from collections.abc import Iterable

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.read import positions
from keyfold.read.positions import Follower


def require_followed(home: AppHome, table: str) -> None:
    """Refuses a table whose view, sinks or readers have unread changes, which are about to be removed."""
    found = [*positions.followers(home, table), *positions.readers(home, table)]
    _refuse(home, table, found, "start the app with the old definition")


def require_read(home: AppHome, table: str) -> None:
    """Refuses a table that its readers have not read completely: they would miss erased changes."""
    _refuse(home, table, positions.readers(home, table), "start the app")


def _refuse(home: AppHome, table: str, followers: Iterable[Follower], start: str) -> None:
    log = TableLog(home.table(table).log_files)
    found = ((one, log.newest_change(one.batch)) for one in followers)
    behind = {str(one): (one.batch, newest) for one, newest in found if newest is not None}
    if behind:
        raise BadOption(
            f"{', '.join(behind)} must first read the newest changes of {home.path.name}.{table}",
            given="\n".join(f"{name}: at batch {at} of {newest}" for name, (at, newest) in behind.items()),
            hint=f"{start}, let it read all of its input, and stop it (keyfold run APP.py --drain)",
        )
