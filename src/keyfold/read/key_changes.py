"""Finds the last changes of some keys in the batches of a log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine.log.changes import changes
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import QueryError
from keyfold.views.contract import ViewSchema
from keyfold.views.query.filters import checked_key
from keyfold.views.schema import AT, BATCH

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CHANGES: Final = 2_000_000
"""How many changes are searched for one read of keys: a second or two."""
Row = dict[str, Any]


@dataclass
class KeyChanges:
    """The changes of keys in a log; `keys` are the parts of each, `given` is what errors show."""

    log: TableLog
    schema: ViewSchema
    keys: Mapping[str, Sequence[Any]]
    name: str
    given: str
    searched: int = 0

    def rows(self, manifest: Manifest, of: Collection[str]) -> dict[str, Row | None]:
        """The rows of some keys after the last change of each in a batch; None after a delete."""
        self.searched += manifest.counts["change"]
        if self.searched > MOST_CHANGES:
            what = f"the rows are among more than {MOST_CHANGES:,} changes, which are not searched"
            hint = "a later batch; or the present rows, without as_of"
            raise QueryError(what, reason="too_large", where=self.name, given=self.given, hint=hint)
        parts = list(zip(*(self.keys[key] for key in of), strict=True))
        found: dict[str, Row | None] = {}
        for batch in changes(self.log, manifest, self.schema):
            found |= self._decoded(self._with_parts(batch, parts), manifest, of)
        return found

    def _with_parts(self, found: pa.RecordBatch, parts: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """The rows of which each part of the key is one of some."""
        import pyarrow as pa
        from pyarrow import compute

        for column, wanted in zip(self.schema.keys, parts, strict=True):
            of = column.type.canonical_arrow
            values = found.column(column.name).cast(column.type.arrow).cast(of)
            found = found.filter(compute.is_in(values, value_set=pa.array(wanted, of)))
        return found

    def _decoded(
        self, found: pa.RecordBatch, manifest: Manifest, of: Collection[str]
    ) -> dict[str, Row | None]:
        columns = (*self.schema.keys, *self.schema.columns)
        values = [column.type.python_values(found.column(column.name)) for column in columns]
        rows: dict[str, Row | None] = {}
        for op, *row in zip(found.column("_op").to_pylist(), *values, strict=True):
            key = repr(checked_key(row[: len(self.schema.keys)], self.schema))
            if key in of:
                named = {column.name: value for column, value in zip(columns, row, strict=True)}
                at = {BATCH.name: manifest.batch, AT.name: manifest.at}
                rows[key] = None if op == "delete" else named | at
        return rows
