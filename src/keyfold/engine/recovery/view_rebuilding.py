"""The line of the audit log for views that a command rebuilds, recorded in `rebuilding.json` beside them.

The store of views replaces each in a transaction of its own. Which of them were replaced when the command was
killed is seen from their rows: they are no longer those whose digest was recorded before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

from keyfold.engine.storage import audit, intents
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import QueryError
from keyfold.views.contract import ViewStore
from keyfold.views.stores import open_store

INTENT: Final = "rebuilding.json"


@contextmanager
def audited(
    place: AppHome, store: ViewStore, what: str, why: str | None, batches: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """The views of these batches are rebuilt within it; yields the entry. The caller holds the home.

    An error leaves a line for the views that were rebuilt before, as a kill does.
    """
    entry = audit.entry(what, why, views=list(batches), batches=dict(batches))
    before = {table: _digest(store, table) for table in batches}
    intents.record(_beside(place), INTENT, {"audit": entry, "before": before})
    try:
        yield entry
    except BaseException:
        finish(place)
        raise
    entry["keys"] = {table: store.count(table) for table in batches}
    audit.append(place.storage, entry)
    _beside(place).delete(INTENT)


def finish(place: AppHome) -> None:
    """Writes the line for the views that a command had rebuilt when it was interrupted, if there are any."""
    recorded = intents.recorded(_beside(place), INTENT)
    if recorded is None:
        return
    entry, views = recorded["audit"], _rebuilt(place, recorded["before"])
    if views:
        batches = {table: entry["batches"][table] for table in views}
        audit.append(place.storage, {**entry, "views": views, "batches": batches})
    _beside(place).delete(INTENT)


def _rebuilt(place: AppHome, before: Mapping[str, str | None]) -> list[str]:
    if not place.views.exists():
        return []
    with closing(open_store(place.views, read_only=True)) as store:
        now = {table: _digest(store, table) for table in before}
    return [table for table, digest in before.items() if now[table] not in (None, digest)]


def _digest(store: ViewStore, table: str) -> str | None:
    """The digest of a view's rows; None if there is no such view."""
    found = hashlib.sha256()
    with suppress(QueryError):
        for row in store.scan(table):
            found.update(repr(row).encode())
        return found.hexdigest()
    return None


def _beside(place: AppHome) -> LocalStorage:
    """Where the views are: another host, with views of its own, must not judge by those."""
    return LocalStorage(place.local)
