"""Brings a view up to date with a batch that a command has added to its table's log."""

from __future__ import annotations

from keyfold.engine.followers.view import ViewFollower
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import KeyfoldError


def bring_up_view(home: AppHome, table: str, batch: int) -> None:
    """Applies a batch of the log to the view, if that has all earlier ones; otherwise it follows later."""
    log = TableLog(home.table(table).log_files)
    manifest = log.find(batch)
    if manifest is None or not home.views.exists():
        return
    try:
        with home.views.open(read_only=False) as store:
            position = store.position(table)
            before = -1 if manifest.previous is None else manifest.previous
            if position is not None and before <= position.batch < batch:
                ViewFollower(log, store, store.schema(table)).apply(manifest)
    except KeyfoldError:
        # A damaged view can't be used; the next start reports it.
        return
