"""The audit log line for views that a command rebuilds, recorded in `rebuilding.json` beside them.

The view store replaces each view in a transaction of its own. If the command is killed, the rows show which
views were replaced: their digest differs from the one recorded before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from keyfold.engine.operations.kinds import REBUILD_VIEWS
from keyfold.engine.storage import audit
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.local import LocalStorage
from keyfold.errors import QueryError
from keyfold.views.contract import ViewStore


@contextmanager
def audit_rebuild(
    home: AppHome, store: ViewStore, what: str, why: str | None, batches: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Context in which the views of these batches are rebuilt; yields the entry. The caller holds the home.

    An error leaves a line for the views rebuilt before it, as a kill does.
    """
    entry = audit.entry(what, why, views=list(batches), batches=dict(batches))
    before = {table: _digest(store, table) for table in batches}
    REBUILD_VIEWS.commit(home, {"audit": entry, "before": before})
    try:
        yield entry
    except BaseException:
        REBUILD_VIEWS.finish(home)
        raise
    entry["keys"] = {table: store.count(table) for table in batches}
    audit.append(home.storage, entry)
    LocalStorage(home.local).delete(REBUILD_VIEWS.record)


def carry_out(home: AppHome, document: dict[str, Any]) -> dict[str, Any] | None:
    """The line for the views that an interrupted command had rebuilt, if any."""
    entry, views = document["audit"], _rebuilt(home, document["before"])
    batches = {table: entry["batches"][table] for table in views}
    return {**entry, "views": views, "batches": batches} if views else None


def _rebuilt(home: AppHome, before: Mapping[str, str | None]) -> list[str]:
    if not home.views.exists():
        return []
    with home.views.open(read_only=True) as store:
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
