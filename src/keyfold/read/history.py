"""The changes of keys that a log still has, and the batch from which on it has all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from keyfold.engine.internal_columns import OP, visible
from keyfold.engine.log.changes import changes
from keyfold.engine.log.key_text import matching
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
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


@dataclass(frozen=True)
class Since:
    """The batch from which on the log has all changes; `whole`: it is the table's first one.

    `migrated`: the batch after which a migration started the log over, if earlier changes are missing for
    that reason.
    """

    batch: int | None
    at: datetime | None
    whole: bool
    migrated: int | None = None

    def document(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Change:
    """A new version of a row; a delete has the columns of the key alone."""

    batch: int
    at: datetime
    op: Literal["upsert", "final", "delete"]
    row: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """The fields by name."""
        return {"batch": self.batch, "at": self.at, "op": self.op, "row": self.row}


def since(log: TableLog) -> Since:
    """The batch back to which the changes of a log are complete."""
    known = totals(log)
    first: Manifest | None = None
    whole = known.upto < 0
    # Of the batches before it, a migration keeps those without changes that follow the last removed one.
    migrated = None if known.migrated is None or known.migrated < known.upto else known.migrated
    for manifest in log.after(known.upto):
        if not manifest.has_its_changes:
            first, whole, migrated = None, False, None
        elif first is None:
            first = manifest
    if first is None:
        return Since(None, None, whole, migrated)
    return Since(first.batch, first.at, whole, migrated)


def history(log: TableLog, key: Sequence[str]) -> Iterator[Change]:
    """The changes of a key, or of all keys with these first columns, oldest first."""
    for manifest in log.after(totals(log).upto):
        for part in manifest.of_kind("change"):
            names = visible(name for name in log.schema(part).names if name != OP)
            if len(key) > len(names):
                raise QueryError(f"the table has {len(names)} columns", given=", ".join(key))
            for found in log.part_rows(part, [OP, *names]):
                yield from _changes(manifest, matching(found, names, key), names)


def _changes(manifest: Manifest, found: pa.RecordBatch, names: Sequence[str]) -> Iterator[Change]:
    for row in found.to_pylist():
        op = row.pop(OP)
        kept = {name: row[name] for name in names if op != "delete" or row[name] is not None}
        yield Change(manifest.batch, manifest.at, op, kept)


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
