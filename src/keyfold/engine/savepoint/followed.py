"""Whether everything that follows a table's log has read all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from keyfold.engine.log.readers import Use, read_upto
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import sink_positions, table_removal
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption
from keyfold.views.stores import open_store


def require_followed(place: AppHome, table: str) -> None:
    """Refuses a table whose view, sinks or readers have still to read its log: the changes are to go."""
    newest = TableLog(place.table(table).log_files).newest()
    behind = [] if newest is None else [name for name, at in _positions(place, table) if at < newest]
    if behind:
        raise BadOption(
            f"{', '.join(behind)} of {place.path.name}.{table} have not read its newest changes",
            given=f"batch {newest}",
            hint="start the app with the old definition, let it read all of its input, and stop it "
            "(keyfold run APP.py --drain)",
        )


def _positions(place: AppHome, table: str) -> Iterator[tuple[str, int]]:
    """Each follower by name, and the newest batch that it has read."""
    for name, at in sink_positions.positions(place, table):
        yield f"sink {name}", at
    if place.views.exists():
        with closing(open_store(place.views, read_only=True)) as store:
            position = store.position(table)
        if position is not None:
            yield "the view", position.batch
    for reader in table_removal.readers(place, table):
        inputs = place.table(reader).storage.list("inputs")
        for name in (one for one in inputs if one.partition("-")[2] == table):
            use = Use(reader, int(name.partition("-")[0]), table)
            yield f"table {reader}", read_upto(place, use)
