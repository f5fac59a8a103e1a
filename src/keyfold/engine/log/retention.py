"""How long a log is kept: changes until every follower has read them and `history` has passed.

Rejected, late and duplicate rows are for people, so their parts and manifests stay. Before manifests are
removed, their counts are added to `totals.json`, so that totals are known without reading the other
manifests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from keyfold.engine.log.manifest import Kind, Manifest
from keyfold.engine.log.merged import Range
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.log.totals import Totals, read_totals

NEWEST: Final = 10
"""The newest batches, which always stay: Spark may run one of them again, and readers may be opening them."""


def totals(log: TableLog) -> Totals:
    """What was removed from a log."""
    return read_totals(log.storage)


def count_rows(log: TableLog) -> Counter[str]:
    """The total number of rows of each kind, over all batches of a table."""
    known = totals(log)
    sums = Counter(known.counts)
    for manifest in log.after(known.upto):
        sums.update(manifest.counts)
    return sums


def prune(log: TableLog, read_upto: int, history: timedelta | None = None, newest: int | None = None) -> int:
    """Removes changes that every follower has read, up to a batch, and that are older than `history`.

    Returns the batch up to which changes have been removed. The newest batches stay. A caller that passes
    `newest` avoids a listing: the call then takes time only for what is removed.
    """
    known = totals(log)
    newest = (log.newest() or 0) if newest is None else newest
    over = None if history is None else datetime.now(UTC) - history
    gone = []
    for batch in range(known.upto + 1, min(read_upto, newest - NEWEST) + 1):
        manifest = log.find(batch)
        if manifest is None:
            continue
        if over is not None and manifest.at > over:
            break
        gone.append(manifest)
    if not gone:
        return known.upto
    sums = Counter(known.counts)
    for manifest in gone:
        sums.update(manifest.counts)
    upto = gone[-1].batch
    replace(known, upto=upto, counts=sums).record(log.storage)
    for manifest in gone:
        _remove(log, manifest)
    for of in log.merged.ranges():
        if known.upto < of.last <= upto:
            _remove_range(log, of)
    return upto


def forget_changes(log: TableLog, upto: int) -> None:
    """Removes the changes of all batches up to one, also the newest, since they have an old definition.

    Manifests after the last change stay: tables that read the log may not have reached these yet.
    """
    last = log.newest_change(totals(log).upto)
    if last is not None:
        prune(log, last, newest=last + NEWEST)
        for of in log.merged.ranges():
            if of.first <= last < of.last:
                _remove_changes(log, of)
    replace(totals(log), migrated=upto).record(log.storage)


def prune_side_outputs(log: TableLog, age: timedelta | None = None) -> tuple[int, int]:
    """Removes the side outputs of batches whose changes are gone and that are older than `age`.

    Returns the number of batches and of bytes. Merged batches are removed together.
    """
    batches, size = 0, 0
    for of, found in _read_by_all(log, age):
        batches += len(found)
        size += _side_bytes(found)
        _remove_side_outputs(log, of, found)
    return batches, size


@dataclass(frozen=True)
class Dropped:
    """What was removed of one kind of side output."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0


def drop_side_outputs(log: TableLog, kind: Kind, age: timedelta | None = None) -> Dropped:
    """Removes the rows of one kind from the batches of which `prune_side_outputs` removes all."""
    done = Dropped()
    for of, found in _read_by_all(log, age):
        mine = [part for manifest in found for part in manifest.of_kind(kind)]
        if mine:
            files = {part.path: part.bytes for part in mine}
            batches = sum(bool(manifest.of_kind(kind)) for manifest in found)
            rows = sum(part.rows for part in mine)
            done = Dropped(done.batches + batches, done.rows + rows, done.bytes + sum(files.values()))
            _remove_kind(log, of, found, kind)
    return done


def _read_by_all(log: TableLog, age: timedelta | None) -> Iterator[tuple[Range | None, list[Manifest]]]:
    """Batches whose changes are gone and that are older than `age`; merged ones together."""
    upto, over = totals(log).upto, datetime.now(UTC) - (age or timedelta())
    for of in log.merged.ranges():
        found = log.merged.manifests(of)
        if found and of.last <= upto and found[-1].at <= over:
            yield of, found
    for batch in log.own_batches():
        if batch > upto:
            break
        manifest = log.find(batch)
        if manifest is not None and manifest.at <= over:
            yield None, [manifest]


def _remove_side_outputs(log: TableLog, of: Range | None, found: list[Manifest]) -> None:
    if of is None:
        _remove_whole(log, found[0])
    else:
        log.merged.remove(of)


def _remove_kind(log: TableLog, of: Range | None, found: list[Manifest], kind: Kind) -> None:
    """Removes the parts of a kind, first from manifests: a file that none of them lists is garbage."""
    left = [replace(m, parts=tuple(part for part in m.parts if part.kind != kind)) for m in found]
    if all(part.kind == "change" for manifest in left for part in manifest.parts):
        _remove_side_outputs(log, of, found)
        return
    if of is None:
        log.file(left[0].batch).put(left[0].encode())
    else:
        log.merged.rewrite(of, left)
    for path in {part.path for manifest in found for part in manifest.of_kind(kind)}:
        log.storage.delete(path, durable=False)


def _side_bytes(found: Sequence[Manifest]) -> int:
    parts = (part for manifest in found for part in manifest.parts if part.kind != "change")
    return sum({part.path: part.bytes for part in parts}.values())


def _remove(log: TableLog, manifest: Manifest) -> None:
    """Removes a manifest and its parts, or only the changes if it has side outputs."""
    if log.merged.of(manifest.batch) is not None:
        return
    if any(part.kind != "change" for part in manifest.parts):
        for part in manifest.of_kind("change"):
            log.storage.delete(part.path, durable=False)
        return
    _remove_whole(log, manifest)


def _remove_range(log: TableLog, of: Range) -> None:
    """The same for merged batches, once the changes of all of them are due for removal."""
    parts = [part for manifest in log.merged.manifests(of) for part in manifest.parts]
    if all(part.kind == "change" for part in parts):
        log.merged.remove(of)
    else:
        _remove_changes(log, of)


def _remove_changes(log: TableLog, of: Range) -> None:
    """Removes the files with changes of merged batches, whose manifests stay."""
    parts = {part.path for manifest in log.merged.manifests(of) for part in manifest.of_kind("change")}
    for path in parts:
        log.storage.delete(path, durable=False)


def _remove_whole(log: TableLog, manifest: Manifest) -> None:
    log.storage.delete(log.file(manifest.batch).path, durable=False)
    for directory in {part.path.rpartition("/")[0] for part in manifest.parts}:
        log.storage.delete(directory, durable=False)
