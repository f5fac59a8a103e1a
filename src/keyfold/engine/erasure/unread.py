"""Batches in a savepoint's logs that tables read after a restore, in which rows of an erased key stay.

A table that has not folded a change of the key would otherwise retract, with its deletion, what it never had.
And a batch whose changes others have seen must read the same rows when it runs again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.engine.erasure.unfinished_batch import UnfinishedBatch, unfinished_batch
from keyfold.engine.log import readers
from keyfold.engine.log.readers import Use
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption


@dataclass(frozen=True)
class UnreadBatches:
    """The batches of a log that each of its readers has yet to read, or reads again."""

    by_reader: Mapping[str, range]

    @property
    def read_upto(self) -> int:
        """The batch up to which all of them have read the log."""
        return min((batches.start for batches in self.by_reader.values()), default=sys.maxsize) - 1

    def __contains__(self, batch: object) -> bool:
        return any(batch in batches for batches in self.by_reader.values())

    def told(self, what: str, left: Iterable[int]) -> list[str]:
        """Which batches still have the key, and for whom, as the receipt says it."""
        found = sorted(left)
        names = [name for name, batches in self.by_reader.items() if any(one in batches for one in found)]
        if not found:
            return []
        numbers = ", ".join(map(str, found))
        return [f"{what} in batch {numbers} of the log, for {', '.join(names)} to read after a restore"]


NONE: Final = UnreadBatches({})


def of_table(home: AppHome, table: str, left: UnfinishedBatch | None) -> UnreadBatches:
    """The finished batches of a table that its readers have not committed, also if they have planned them."""
    end = sys.maxsize if left is None else left.number
    return UnreadBatches({name: range(_read_upto(home, uses) + 1, end) for name, uses in _uses(home, table)})


def of_stream(home: AppHome, stream: str, besides: str) -> UnreadBatches:
    """What unfinished batches of tables, besides one, read of a stream, if others have seen their changes."""
    return UnreadBatches(
        {
            name: range(_read_upto(home, uses) + 1, _planned_upto(home, uses) + 1)
            for name, uses in _uses(home, stream)
            if name != besides and _is_published(home, name)
        }
    )


def require_unseen(home: AppHome, left: UnfinishedBatch) -> None:
    """Refuses an unfinished batch whose changes are in what another table has published.

    They would be folded there twice, since it runs again under another number. And the first batch of a table
    is gone until it has run again, which a table that has planned to read it does not wait for.
    """
    table, is_first = left.home.path.name, left.home.committed_batch() is None

    def seen_upto(reader: str, uses: Sequence[Use]) -> int:
        planned = is_first or _is_published(home, reader)
        return _planned_upto(home, uses) if planned else max(readers.read_upto(home, use) for use in uses)

    seen = [name for name, uses in _uses(home, table) if left.number <= seen_upto(name, uses)]
    if seen and left.published:
        raise BadOption(
            f"batch {left.number} of {home.path.name}.{table} is not finished, and {', '.join(seen)} "
            "can't read its changes again",
            given=table,
        )


def _is_published(home: AppHome, reader: str) -> bool:
    """Whether others may have seen the changes of a table's unfinished batch."""
    left = unfinished_batch(home.table(reader))
    return left is not None and left.published


def _read_upto(home: AppHome, uses: Sequence[Use]) -> int:
    return min(readers.read_upto(home, use) for use in uses)


def _planned_upto(home: AppHome, uses: Sequence[Use]) -> int:
    return max(readers.planned_upto(home, use) for use in uses)


def _uses(home: AppHome, name: str) -> list[tuple[str, list[Use]]]:
    """The tables that read the log of a table or stream, with the places in each that do."""
    found = []
    for reader in contents.readers(home, name):
        names = (one.partition("-") for one in home.table(reader).storage.list("inputs"))
        found.append((reader, [Use(reader, int(number), name) for number, _, read in names if read == name]))
    return found
