"""The name of a table when a savepoint was made: migrations rename tables, but not those in savepoints.

`renamed` of a table in `app.json` lists its renames, oldest first: `from`, and `at`, which distinguishes
renames from the same name at different times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RENAMED: Final = "renamed"


def renamed(entry: Mapping[str, Any], was: str, at: str) -> dict[str, Any]:
    """A table's entry in `app.json` after a rename."""
    return {**entry, RENAMED: [*entry.get(RENAMED, ()), {"from": was, "at": at}]}


def then_called(now: Mapping[str, Any] | None, table: str, then: Mapping[str, Any] | None) -> str | None:
    """The name of a table in the definitions of a savepoint; None if it did not exist.

    A restore reverts renames, so a savepoint may also have a name that the table got later. Two tables are
    the same if they had the same name after the last rename they have in common; of several, the one that
    shares most renames counts. A table with another's old name was declared after that rename.
    """
    tables = {name: entry or {} for name, entry in ((now or {}).get("tables") or {}).items()}
    others = {name: entry or {} for name, entry in ((then or {}).get("tables") or {}).items()}
    found, count = _closest(tables.get(table, {}), table, others)
    taken = found is not None and any(
        name != table and _closest(entry, name, others) == (found, count) and _had(entry, count, found)
        for name, entry in tables.items()
    )
    return None if taken else found


def _had(entry: Mapping[str, Any], count: int, name: str) -> bool:
    """Whether a table's rename after the first `count` ones was from this name."""
    return [one["from"] for one in entry.get(RENAMED, ())][count : count + 1] == [name]


def _closest(
    mine: Mapping[str, Any], table: str, others: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, int]:
    """The same table in a savepoint, and how many renames both have in common."""
    shared = {name: _shared(mine, table, entry, name) for name, entry in others.items()}
    related = [(count, name == table, name) for name, count in shared.items() if count is not None]
    count, _, found = max(related, default=(0, False, None))
    return found, count


def _shared(mine: Mapping[str, Any], table: str, other: Mapping[str, Any], name: str) -> int | None:
    """The number of renames that two tables have in common; None if they are not the same table."""
    renames, others = list(mine.get(RENAMED, ())), list(other.get(RENAMED, ()))
    count = 0
    while renames[count : count + 1] and renames[count : count + 1] == others[count : count + 1]:
        count += 1
    names = [one["from"] for one in renames] + [table]
    then = [one["from"] for one in others] + [name]
    return count if names[count] == then[count] else None
