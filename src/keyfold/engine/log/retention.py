"""How long a log is kept: changes until every follower has read them and `history` is over.

Rejected, late and duplicate rows are for people, so their parts and manifests stay. Before manifests go,
their counts are added to `totals.json`: how many rows there were is known without reading what is left.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from keyfold.engine.log import manifest as manifests
from keyfold.engine.log.manifest import LAYOUT, Manifest
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.stored_file import StoredFile

_TOTALS: Final = "totals.json"
NEWEST: Final = 10
"""The newest batches stay: Spark may run one of them again, and readers may be about to open them."""


@dataclass(frozen=True)
class Totals:
    """What the batches up to one had, whose changes are no longer in the log."""

    upto: int = -1
    counts: Mapping[str, int] = field(default_factory=dict)


def totals(log: TableLog) -> Totals:
    """The totals of a log; those of no batch before anything was pruned."""
    file = StoredFile(log.storage, _TOTALS)
    try:
        found = json.loads(file.read_bytes())
        if found["layout"] != LAYOUT:
            raise manifests.other_layout(file, found["layout"])
        return Totals(int(found["upto"]), dict(found["counts"]))
    except FileNotFoundError:
        return Totals()
    except (ValueError, LookupError, TypeError) as error:
        raise manifests.damaged(file, str(error)) from None


def counted(log: TableLog) -> Counter[str]:
    """How many rows of each kind a table has had, over all batches."""
    known = totals(log)
    sums = Counter(known.counts)
    for manifest in log.after(known.upto):
        sums.update(manifest.counts)
    return sums


def prune(log: TableLog, read_upto: int, history: timedelta | None = None) -> int:
    """Removes what every follower has read, up to a batch, and is older than `history`.

    Returns up to which batch changes are gone. The newest batches stay.
    """
    known = totals(log)
    batches = log.batches()
    limit = min(read_upto, batches[-NEWEST - 1] if len(batches) > NEWEST else -1)
    over = None if history is None else datetime.now(UTC) - history
    gone = []
    for manifest in log.after(known.upto):
        if manifest.batch > limit or (over is not None and manifest.at > over):
            break
        gone.append(manifest)
    if not gone:
        return known.upto
    sums = Counter(known.counts)
    for manifest in gone:
        sums.update(manifest.counts)
    upto = gone[-1].batch
    content = json.dumps({"layout": LAYOUT, "upto": upto, "counts": sums})
    log.storage.put(_TOTALS, content.encode())
    for manifest in gone:
        _remove(log, manifest)
    return upto


def prune_side_outputs(log: TableLog, age: timedelta | None = None) -> tuple[int, int]:
    """Removes the side outputs of batches whose changes are gone and that are older than `age`.

    Returns of how many batches, and how many bytes.
    """
    known, batches, size = totals(log), 0, 0
    over = datetime.now(UTC) - (age or timedelta())
    for manifest in log.after(-1):
        if manifest.batch > known.upto:
            break
        if manifest.at <= over:
            batches += 1
            size += sum(part.bytes for part in manifest.parts if part.kind != "change")
            _remove_whole(log, manifest)
    return batches, size


def _remove(log: TableLog, manifest: Manifest) -> None:
    """Removes a manifest and its parts, or the changes alone where it has side outputs."""
    if any(part.kind != "change" for part in manifest.parts):
        for part in manifest.of_kind("change"):
            log.storage.delete(part.path, durable=False)
        return
    _remove_whole(log, manifest)


def _remove_whole(log: TableLog, manifest: Manifest) -> None:
    log.storage.delete(log.file(manifest.batch).path, durable=False)
    for directory in {part.path.rpartition("/")[0] for part in manifest.parts}:
        log.storage.delete(directory, durable=False)
