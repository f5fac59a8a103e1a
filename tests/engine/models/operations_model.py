"""What an app has after batches and commands, by a plain fold of the rows that it has read."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from dataclasses import dataclass, field, replace

Row = tuple[str, int, int]
"""Key, value, second."""

SECONDS = 10
"""The length of a window."""


@dataclass(frozen=True)
class Version:
    """The definition of the app: whether `totals` has another column, and how the windows are called."""

    more: bool = False
    windows: str = "windows"


@dataclass
class Tables:
    """The rows of each table."""

    totals: dict[str, list[int]] = field(default_factory=dict)
    """Rows, their sum, and rows since the column `more` was added, by key."""
    windows: dict[tuple[str, int], int] = field(default_factory=dict)
    """Rows by key and start of the window."""

    def fold(self, rows: list[Row]) -> None:
        for key, value, second in rows:
            total = self.totals.setdefault(key, [0, 0, 0])
            for place, added in enumerate((1, value, 1)):
                total[place] += added
            window = (key, second // SECONDS * SECONDS)
            self.windows[window] = self.windows.get(window, 0) + 1

    def forget(self, table: str, key: str) -> None:
        if table == "totals":
            self.totals.pop(key, None)
        else:
            self.windows = {at: n for at, n in self.windows.items() if at[0] != key}

    @property
    def parity(self) -> dict[int, list[int]]:
        """The table of `totals`: keys and their sum, by whether a key has an odd number of rows."""
        found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        for n, total, _ in self.totals.values():
            found[n % 2][0] += 1
            found[n % 2][1] += total
        return dict(found)


@dataclass(frozen=True)
class Moment:
    """All that the app is at a moment: its tables, how much of the input is in them, and its definition."""

    tables: Tables
    read: int
    version: Version


class Model:
    """The input, the app as it is now, and its savepoints."""

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.now = Moment(Tables(), 0, Version())
        self.savepoints: dict[str, Moment] = {}

    def copy(self) -> Model:
        return deepcopy(self)

    def push(self, rows: list[Row]) -> None:
        self.batches.append(rows)
        self.read()

    def read(self) -> None:
        """What a start does: it reads the input that is not in the tables."""
        for rows in self.batches[self.now.read :]:
            self.now.tables.fold(rows)
        self.now = replace(self.now, read=len(self.batches))

    def save(self, name: str) -> None:
        self.savepoints[name] = deepcopy(self.now)

    def restore(self, name: str) -> None:
        self.now = deepcopy(self.savepoints[name])

    def migrate(self, version: Version) -> None:
        if version.more and not self.now.version.more:
            for total in self.now.tables.totals.values():
                total[2] = 0
        self.now = replace(self.now, version=version)

    def delete(self, table: str, key: str) -> None:
        """Of the state alone: savepoints keep it."""
        self.now.tables.forget(table, key)

    def forget(self, table: str, key: str) -> None:
        """Of savepoints too, as far as they have a table of that name."""
        for moment in (self.now, *self.savepoints.values()):
            if table == "totals" or moment.version.windows == table:
                moment.tables.forget(table, key)
