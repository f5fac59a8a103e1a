"""Merges the parts of old batches: a log with a long history gets a few large files, not many small ones.

Followers read the same as before: every batch keeps its number, its rows and their order. A range of batches
is merged into new files, then published by one manifest, then the replaced files are removed. After a kill
the log has the original batches, or the merged ones, or both, which makes no difference to readers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from keyfold.engine.internal_columns import MERGED_BATCH
from keyfold.engine.log.log_writer import sweep
from keyfold.engine.log.manifest import Kind, Manifest, Part
from keyfold.engine.log.merged import MERGED, Range
from keyfold.engine.log.merged_files import MergedFiles
from keyfold.engine.log.retention import NEWEST
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.log.totals import read_totals
from keyfold.engine.storage.lease import Lease
from keyfold.fault_points import FaultPoint, reached

if TYPE_CHECKING:
    import pyarrow as pa

# A range is held in memory while it is merged, and its manifest is read as a whole.
_MOST_BYTES: Final = 64 << 20
_MOST_BATCHES: Final = 5000


@dataclass(frozen=True)
class Size:
    """The number of files of a log, manifests included, and the bytes of its parts."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.files + other.files, self.bytes + other.bytes)


@dataclass(frozen=True)
class Merge:
    """A range of merged batches."""

    of: Range
    batches: int
    before: Size
    after: Size


@dataclass
class _Group:
    """Batches to merge together: some with manifests of their own, some from earlier ranges."""

    manifests: list[Manifest] = field(default_factory=list)
    schemas: dict[Kind, pa.Schema] = field(default_factory=dict)
    ranges: list[Range] = field(default_factory=list)
    own: list[Manifest] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts.values())

    @property
    def size(self) -> Size:
        return Size(len(self.own) + len(self.ranges) + len(self.parts), self.bytes)

    def add(self, found: list[Manifest], parts: dict[str, Part], of: Range | None) -> None:
        self.manifests += found
        self.parts.update(parts)
        if of is None:
            self.own += found
        else:
            self.ranges.append(of)


class Compaction:
    """Merges the old batches of one log while this process holds the lease."""

    def __init__(self, log: TableLog, lease: Lease) -> None:
        self._log, self._lease = log, lease
        self._gone = read_totals(log.storage).upto

    def run(self) -> Iterator[Merge]:
        """Merges range by range, except for the newest batches."""
        sweep(self._log)
        for group in self._groups():
            if group.size.files > 1 + len(group.schemas):
                yield self._merge(group)

    def _groups(self) -> Iterator[_Group]:
        """Groups of neighbours to merge, by size and by the columns of their changes."""
        group = _Group()
        for found, of in self._units():
            parts = {part.path: part for m in found for part in m.parts if not self._is_removed(m, part)}
            large = sum(part.bytes for part in parts.values()) > _MOST_BYTES // 2
            full = len(group.manifests) + len(found) > _MOST_BATCHES or group.bytes > _MOST_BYTES // 2
            schemas = self._schemas(group, parts)
            if large or full or schemas is None:
                yield group
                group = _Group()
                schemas = self._schemas(group, parts)
            if large or schemas is None:
                continue
            group.schemas = schemas
            group.add(found, parts, of)
        yield group

    def _units(self) -> Iterator[tuple[list[Manifest], Range | None]]:
        """Each batch with a manifest of its own, and each range, oldest first."""
        limit = (self._log.newest() or 0) - NEWEST
        ranges = iter(self._log.merged.ranges())
        of = next(ranges, None)
        for batch in (number for number in self._log.own_batches() if number <= limit):
            while of is not None and of.first < batch:
                yield self._log.merged.manifests(of), of
                of = next(ranges, None)
            manifest = self._log.find(batch)
            if manifest is not None:
                yield [manifest], None

    def _is_removed(self, manifest: Manifest, part: Part) -> bool:
        return part.kind == "change" and manifest.batch <= self._gone

    def _schemas(self, group: _Group, parts: dict[str, Part]) -> dict[Kind, pa.Schema] | None:
        """The columns of each kind once parts have joined a group; None if their changes have others."""
        import pyarrow as pa

        found = dict(group.schemas)
        for part in parts.values():
            schema = self._log.schema(part)
            if part.kind == "change" and MERGED_BATCH not in schema.names:
                schema = schema.append(pa.field(MERGED_BATCH, pa.int64()))
            known = found.setdefault(part.kind, schema)
            if part.kind != "change":
                found[part.kind] = pa.unify_schemas([known, schema])
            elif known != schema:
                return None
        return found

    def _merge(self, group: _Group) -> Merge:
        log, batches = self._log, [manifest.batch for manifest in group.manifests]
        files = MergedFiles(log, group.schemas)
        for manifest in group.manifests:
            files.add(manifest, gone=manifest.batch <= self._gone)
        merged = files.write(f"{MERGED}/{Range(batches[0], batches[-1])}-{secrets.token_hex(4)}")
        reached(FaultPoint.MERGE_WRITTEN, batches=batches)
        self._lease.check()
        of = log.merged.publish(merged)
        reached(FaultPoint.MERGE_PUBLISHED, batches=batches)
        self._remove(group)
        parts = {part.path: part for manifest in merged for part in manifest.parts}
        after = Size(1 + len(parts), sum(part.bytes for part in parts.values()))
        return Merge(of, len(batches), group.size, after)

    def _remove(self, group: _Group) -> None:
        """Removes what a published range replaces: manifests, durably, and then the parts that they list."""
        storage = self._log.storage
        replaced = [self._log.file(m.batch).path for m in group.own] + [of.file for of in group.ranges]
        for at, name in enumerate(replaced, 1):
            # Flushing a directory once covers everything removed from it.
            storage.delete(name, durable=at in (len(group.own), len(replaced)))
        reached(FaultPoint.MERGE_MANIFESTS_REMOVED, batches=[m.batch for m in group.manifests])
        own = {part.path for manifest in group.own for part in manifest.parts}
        for directory in {path.rpartition("/")[0] for path in own | set(group.parts)}:
            storage.delete(directory, durable=False)
        self._log.merged.invalidate()
