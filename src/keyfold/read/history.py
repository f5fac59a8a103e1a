"""The changes of one key that a log still has, and the batch from which on it has all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from keyfold.engine.internal_columns import OP, visible
from keyfold.engine.log.key_text import matching
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.retention import totals
from keyfold.engine.log.table_log import TableLog
from keyfold.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa


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
