"""The batches that a log has, from their manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from keyfold.engine.log import retention
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.table_log import TableLog


@dataclass(frozen=True)
class LogBatch:
    """A batch of a log, or several that were merged with each other: `first` to `batch`."""

    first: int
    batch: int
    at: datetime
    counts: Mapping[str, int]
    """Rows by kind, and the partial matches that a pattern's limit has dropped."""
    files: int
    size: int

    def document(self) -> dict[str, Any]:
        """The batch with its counts by name."""
        head = {"first": self.first, "batch": self.batch, "at": self.at}
        return {**head, **self.counts, "files": self.files, "size": self.size}


@dataclass(frozen=True)
class LogBatches:
    """The newest batches of a log, `total` of which it has, and what was removed before them."""

    removed_upto: int
    removed: Mapping[str, int]
    batches: list[LogBatch]
    total: int

    def document(self) -> dict[str, Any]:
        """The batches with what was removed."""
        batches = [batch.document() for batch in self.batches]
        return {"removed_upto": self.removed_upto, "removed": dict(self.removed), "batches": batches}


def of(log: TableLog, newest: int | None = None) -> LogBatches:
    """The batches of a log, oldest first; all, or the newest ones."""
    found = list(merged_together(log))
    shown = found if newest is None else found[len(found) - min(newest, len(found)) :]
    known = retention.totals(log)
    return LogBatches(known.upto, known.counts, [_batch(log, one) for one in shown], len(found))


def merged_together(log: TableLog) -> Iterator[list[Manifest]]:
    """The manifests of a log in order, those of batches that were merged with each other together."""
    of = None
    merged: list[Manifest] = []
    for manifest in log.after(-1):
        now = log.merged.of(manifest.batch)
        if merged and now != of:
            yield merged
            merged = []
        of = now
        if of is None:
            yield [manifest]
        else:
            merged.append(manifest)
    if merged:
        yield merged


def _batch(log: TableLog, manifests: list[Manifest]) -> LogBatch:
    parts = {part.path: part for manifest in manifests for part in manifest.parts}
    there = [part for part in parts.values() if log.has(part)]
    counts = {kind: sum(m.counts[kind] for m in manifests) for kind in manifests[0].counts}
    first, last = manifests[0], manifests[-1]
    return LogBatch(first.batch, last.batch, last.at, counts, len(there), sum(part.bytes for part in there))
