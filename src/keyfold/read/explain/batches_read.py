"""Which batches of other logs, of tables and of streams, a batch of a table has read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

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
    table: TableHome, now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None
) -> list[BatchesRead]:
    """What a batch read of each log; `now` are its offsets, `before` those of the batch before it."""
    return list(_read(table, now, before))


def _read(
    table: TableHome, now: Sequence[SourceOffset], before: Sequence[SourceOffset] | None
) -> Iterator[BatchesRead]:
    for name, positions in _uses(table):
        upto = [one.batch for at in positions if isinstance(one := _at(now, at), BatchOffset)]
        if not upto:
            # A source that has had no input yet.
            yield BatchesRead(name, 0, -1)
            continue
        if before is None:
            yield BatchesRead(name, None, max(upto), _UNKNOWN)
            continue
        after = [one.batch for at in positions if isinstance(one := _at(before, at), BatchOffset)]
        yield BatchesRead(name, min(after, default=-1) + 1, max(upto))


def _at(offsets: Sequence[SourceOffset], position: int) -> SourceOffset | None:
    return offsets[position] if position < len(offsets) else None


def _uses(table: TableHome) -> Iterator[tuple[str, list[int]]]:
    """The logs that a table reads, with the positions of their offsets; see `engine.log.readers`."""
    storage = table.storage
    for directory in storage.list("inputs"):
        try:
            positions = json.loads(storage.read(f"inputs/{directory}/use.json"))["positions"]
        except FileNotFoundError:
            continue
        yield directory.partition("-")[2], [int(at) for at in positions]
