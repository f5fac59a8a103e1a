"""The view of a table: the latest row of each key, kept up to date with the table's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Final

from keyfold.engine.followers.follower import Abandoned, Follower
from keyfold.engine.log.changes import changes
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.polling import wait_until
from keyfold.errors import HomeUnusable
from keyfold.fault_points import FaultPoint, reached
from keyfold.views.changes import without_keys
from keyfold.views.contract import Position, ViewSchema, ViewStore

if TYPE_CHECKING:
    import pyarrow as pa

# Changes of a batch that is large enough for the next one to have many keys in common with it; and how many
# are in memory at once.
_LARGE: Final = 100_000
_AT_ONCE: Final = 3_000_000
# The writer may be two batches ahead by default: then a view is never what it waits for.
_BATCHES: Final = 2
_PAUSE_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger("keyfold")


class ViewFollower(Follower):
    """Applies changes to a view; rows and position are committed together.

    If several large batches are due, only the last change of each key is written. While the store can't be
    reached, it tries again: the position tells whether a batch that was cut off has been applied.
    """

    def __init__(self, log: TableLog, store: ViewStore, schema: ViewSchema) -> None:
        self._store, self._schema = store, schema
        found = store.position(schema.table)
        super().__init__("view", schema.table, log, -1 if found is None else found.batch)

    def apply(self, manifest: Manifest) -> None:
        self._try_until_reached(lambda: self._apply(manifest))
        reached(FaultPoint.VIEW_COMMITTED, table=self.table, batch=manifest.batch)

    def _apply(self, manifest: Manifest) -> None:
        with self._store.batch(self.table, manifest.batch, manifest.at, manifest.watermark) as view:
            for found in changes(self.log, manifest, self._schema):
                view.apply(found)

    def apply_together(self, manifests: Sequence[Manifest]) -> None:
        if len(manifests) == 1:
            self.apply(manifests[0])
            return
        self._try_until_reached(lambda: self._apply_together(manifests))
        reached(FaultPoint.VIEW_COMMITTED, table=self.table, batch=manifests[-1].batch)

    def _apply_together(self, manifests: Sequence[Manifest]) -> None:
        first = manifests[0]
        with self._store.batch(self.table, first.batch, first.at, first.watermark) as view:
            for number, manifest in enumerate(manifests, 1):
                if manifest is not first:
                    view.next(Position(manifest.batch, manifest.at, manifest.watermark))
                for found in self._last_changes(manifest, manifests[number:]):
                    view.apply(found)

    def _try_until_reached(self, apply: Callable[[], None]) -> None:
        told = False
        while True:
            try:
                apply()
            except HomeUnusable as error:
                if not told:
                    _LOG.warning("the view of %s can't be written now, retrying: %s", self.table, error)
                    told = True
            else:
                if told:
                    _LOG.warning("the view of %s can be written again", self.table)
                return
            if self.closing() or wait_until(self.closing, _PAUSE_SECONDS):
                raise Abandoned

    def _last_changes(self, manifest: Manifest, later: Sequence[Manifest]) -> Iterable[pa.RecordBatch]:
        """The changes of a batch, except for keys that a later one changes again."""
        found = changes(self.log, manifest, self._schema)
        key, *others = self._schema.keys
        if others:
            return found
        keys = [rows.column(0) for m in later for rows in self.log.rows(m, "change", [key.name])]
        if not keys:
            return found
        typed = [column.cast(key.type.arrow) for column in keys]
        return without_keys(list(found), typed, self._schema)

    def together(self, due: Sequence[Manifest]) -> int:
        if len(self._schema.keys) > 1 or not _large(due[0]):
            return 1
        rows = accumulate(manifest.counts["change"] for manifest in due)
        return max(1, len(list(takewhile(lambda sum_: sum_ <= _AT_ONCE, rows))))

    def gains_from_more(self, due: Sequence[Manifest]) -> bool:
        return len(due) < _BATCHES and len(self._schema.keys) == 1 and _large(due[0])


def _large(manifest: Manifest) -> bool:
    return manifest.counts["change"] >= _LARGE
