"""The name of a table when a savepoint was made: migrations rename tables, but not those in savepoints.

`app.json` lists the renames of each table, oldest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from keyfold.engine.storage.stored_app import Rename, StoredApp, StoredTable


def rename(entry: StoredTable, was: str, at: str) -> StoredTable:
    """A table's entry in `app.json` after a rename."""
    return replace(entry, renamed=(*entry.renamed, Rename(was, at)))


def then_called(now: StoredApp, table: str, then: StoredApp) -> str | None:
    """The name of a table in the definitions of a savepoint; None if it did not exist.

    A restore reverts renames, so a savepoint may also have a name that the table got later. Two tables are
    the same if they had the same name after the last rename they have in common; of several, the one that
    shares most renames counts. A table with another's old name was declared after that rename.
    """
    others = then.tables
    found, count = _closest(now.table(table), table, others)
    taken = found is not None and any(
        name != table and _closest(entry, name, others) == (found, count) and _had(entry, count, found)
        for name, entry in now.tables.items()
    )
    return None if taken else found


def _had(entry: StoredTable, count: int, name: str) -> bool:
    """Whether a table's rename after the first `count` ones was from this name."""
    return [one.was for one in entry.renamed[count : count + 1]] == [name]


def _closest(mine: StoredTable, table: str, others: Mapping[str, StoredTable]) -> tuple[str | None, int]:
    """The same table in a savepoint, and how many renames both have in common."""
    shared = {name: _count_shared(mine, table, entry, name) for name, entry in others.items()}
    related = [(count, name == table, name) for name, count in shared.items() if count is not None]
    count, _, found = max(related, default=(0, False, None))
    return found, count


def _count_shared(mine: StoredTable, table: str, other: StoredTable, name: str) -> int | None:
    """The number of renames that two tables have in common; None if they are not the same table."""
    renames, others = mine.renamed, other.renamed
    count = 0
    while renames[count : count + 1] and renames[count : count + 1] == others[count : count + 1]:
        count += 1
    names = [one.was for one in renames] + [table]
    then = [one.was for one in others] + [name]
    return count if names[count] == then[count] else None
