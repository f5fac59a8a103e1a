"""The view of a table: the latest row of each key, kept up with the table's log."""

from __future__ import annotations

from keyfold.engine.followers.follower import Follower
from keyfold.engine.log.changes import changes
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.fault_points import FaultPoint, reached
from keyfold.views.contract import ViewSchema, ViewStore


class ViewFollower(Follower):
    """Applies the changes of each batch to a view; rows and position are committed together."""

    def __init__(self, log: TableLog, store: ViewStore, schema: ViewSchema) -> None:
        self._store, self._schema = store, schema
        found = store.position(schema.table)
        super().__init__(f"view-{schema.table}", schema.table, log, -1 if found is None else found.batch)

    def apply(self, manifest: Manifest) -> None:
        table, batch = self._schema.table, manifest.batch
        with self._store.batch(table, batch, manifest.at, manifest.watermark) as view:
            for found in changes(self.log, manifest, self._schema):
                view.apply(found)
        reached(FaultPoint.VIEW_COMMITTED, table=table, batch=batch)
