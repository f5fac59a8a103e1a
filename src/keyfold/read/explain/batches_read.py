"""Which batches of other logs, of tables and of streams, a batch of a table has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.engine.log import readers
from keyfold.engine.log.readers import Use
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.source_offsets import BatchOffset, SourceOffset


@dataclass(frozen=True)
class BatchesRead:
    """The batches of a log that a batch has read, both ends included; none if `last` is before `first`."""

    name: str
    first: int | None
    last: int | None
    missing: str | None = None
    """Why they are not known."""


_UNKNOWN: Final = "the positions of the batch before are no longer recorded"


def batches_read(
    use: Use, table: TableHome, now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None
) -> BatchesRead | None:
    """What a batch read of a log; `now` are its offsets, `before` those of the batch before it.

    None if it is not recorded where these are.
    """
    positions = readers.positions(use, table)
    if not positions:
        return None
    upto = [one.batch for at in positions if isinstance(one := _at(now, at), BatchOffset)]
    if not upto:
        # A source that has had no input yet.
        return BatchesRead(use.table, 0, -1)
    if before is None:
        return BatchesRead(use.table, None, max(upto), _UNKNOWN)
    after = [one.batch for at in positions if isinstance(one := _at(before, at), BatchOffset)]
    return BatchesRead(use.table, min(after, default=-1) + 1, max(upto))


def _at(offsets: Sequence[SourceOffset], position: int) -> SourceOffset | None:
    return offsets[position] if position < len(offsets) else None
