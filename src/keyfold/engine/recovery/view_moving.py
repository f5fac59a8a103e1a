"""Moves an app's views when its settings name another store than its last start has used."""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from keyfold.engine.storage.layout import AppHome
from keyfold.errors import QueryError
from keyfold.views.contract import Views
from keyfold.views.stores import COPY

_LOG: Final = logging.getLogger("keyfold")


def use_views(home: AppHome, address: str) -> None:
    """Makes this the store of an app's views, with all rows that they have. Needs the lease.

    They leave the old store, which would miss what happens to the app from now on. A crash leaves them in
    either store, or in both before they are used in the new one; the next start continues.
    """
    # One that can't be reached is said at once, not when Spark has started.
    home.views_at(address).exists()
    if home.views_address != address:
        _move(home.views, home.views_at(address))
        home.record_views(address)


def _move(before: Views, after: Views) -> None:
    try:
        if not before.exists():
            return
        with TemporaryDirectory(prefix="keyfold-views-") as directory:
            copy = Path(directory) / COPY
            with before.open(read_only=True) as store:
                store.copy_to(copy)
            after.restore_from(copy)
    except QueryError as error:
        # Of the old store: that it is lost may be why there is another one.
        _LOG.warning("the views can't be moved to %s, and are rebuilt there: %s", after, error)
        return
    before.remove()
