"""What a table was called when a savepoint was made: tables are renamed by migrations, savepoints stay.

`renamed` of a table in `app.json` has each of its renames, oldest first: `from`, and `at`, which makes it
another one than a rename of the same name at another time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RENAMED: Final = "renamed"


def renamed(entry: Mapping[str, Any], was: str, at: str) -> dict[str, Any]:
    """A table's entry of `app.json` after a rename."""
    return {**entry, RENAMED: [*entry.get(RENAMED, ()), {"from": was, "at": at}]}


def then_called(now: Mapping[str, Any] | None, table: str, then: Mapping[str, Any] | None) -> str | None:
    """The name of a table in the definitions of a savepoint; None if it did not exist.

    A restore takes renames back, so that a savepoint may also have a name that the table got later. Two
    tables are one if they had the same name after the last rename that both have; of several the one with
    which it shares most. A table that took another's old name is younger than that rename.
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
    """Whether a table was renamed from this name, after so many renames."""
    return [one["from"] for one in entry.get(RENAMED, ())][count : count + 1] == [name]


def _closest(
    mine: Mapping[str, Any], table: str, others: Mapping[str, Mapping[str, Any]]
) -> tuple[str | None, int]:
    """The table of a savepoint that is this one, and how many renames they have in common."""
    shared = {name: _shared(mine, table, entry, name) for name, entry in others.items()}
    related = [(count, name == table, name) for name, count in shared.items() if count is not None]
    count, _, found = max(related, default=(0, False, None))
    return found, count


def _shared(mine: Mapping[str, Any], table: str, other: Mapping[str, Any], name: str) -> int | None:
    """How many renames two tables have in common; None if they are not the same table."""
    renames, others = list(mine.get(RENAMED, ())), list(other.get(RENAMED, ()))
    count = 0
    while renames[count : count + 1] and renames[count : count + 1] == others[count : count + 1]:
        count += 1
    names = [one["from"] for one in renames] + [table]
    then = [one["from"] for one in others] + [name]
    return count if names[count] == then[count] else None
