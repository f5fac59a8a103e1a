"""Whether all followers of a table's log have read it completely."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keyfold.engine.log.readers import Use, read_upto
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.operations import removal as table_removal
from keyfold.engine.recovery import sink_positions
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption


def require_followed(home: AppHome, table: str) -> None:
    """Refuses a table whose view, sinks or readers have unread changes, which are about to be removed."""
    positions = [*_positions(home, table), *_readers(home, table)]
    _refuse(home, table, positions, "start the app with the old definition")


def require_read(home: AppHome, table: str) -> None:
    """Refuses a table that its readers have not read completely: they would miss erased changes."""
    _refuse(home, table, _readers(home, table), "start the app")


def _refuse(home: AppHome, table: str, positions: Iterable[tuple[str, int]], start: str) -> None:
    log = TableLog(home.table(table).log_files)
    behind = {name: (at, newest) for name, at in positions if (newest := log.newest_change(at)) is not None}
    if behind:
        raise BadOption(
            f"{', '.join(behind)} must first read the newest changes of {home.path.name}.{table}",
            given="\n".join(f"{name}: at batch {at} of {newest}" for name, (at, newest) in behind.items()),
            hint=f"{start}, let it read all of its input, and stop it (keyfold run APP.py --drain)",
        )


def _positions(home: AppHome, table: str) -> Iterator[tuple[str, int]]:
    """The view and the sinks by name, with the newest batch that each has applied."""
    for name, at in sink_positions.positions(home, table):
        yield f"sink {name}", at
    if home.views.exists():
        with home.views.open(read_only=True) as store:
            position = store.position(table)
        if position is not None:
            yield "the view", position.batch


def _readers(home: AppHome, table: str) -> Iterator[tuple[str, int]]:
    """The same for the tables that read it."""
    for reader in table_removal.readers(home, table):
        inputs = home.table(reader).storage.list("inputs")
        for name in (one for one in inputs if one.partition("-")[2] == table):
            use = Use(reader, int(name.partition("-")[0]), table)
            yield f"table {reader}", read_upto(home, use)
