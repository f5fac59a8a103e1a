"""How much input is left, where that can be known: files that are there and not yet in Spark's log.

Those of a table's streams are counted in their directories; changes of other tables are removed once they are
read, so that of them the log tells how many there were.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator
from pathlib import Path

from keyfold.engine.log import chain
from keyfold.engine.sources import file_names
from keyfold.engine.storage.layout import TableHome
from keyfold.plan import nodes
from keyfold.plan.nodes import TableSpec

LOOKING_SHARE = 0.02


class Backlog:
    """The files that one table reads: how many there are, and how many were read."""

    def __init__(self, spec: TableSpec, home: TableHome) -> None:
        self._home = home
        self._uses = chain.uses(spec)
        connectors = [source.connector for source in nodes.sources(spec.input)]
        # Other file systems would have to be asked through Spark, which has better things to do.
        self._known = all(c.kind == "files" and "://" not in (c.path or "") for c in connectors)
        self._paths = [connector.path for connector in connectors if connector.path]
        self._lines: dict[Path, int] = {}
        self._of_tables: set[Path] = set()
        self._newest: dict[int, int] = {}
        self._found = 0
        self._look_after = 0.0

    def files(self) -> tuple[int, int, int] | None:
        """Files read in batches before the one under way, files in that one, and all files there are."""
        if not self._known:
            return None
        there = self._there()
        logs = {log: self._read(log) for log in sorted(self._home.checkpoint.glob("sources/[0-9]*"))}
        planned, now = sum(all_ for all_, _ in logs.values()), sum(last for _, last in logs.values())
        changes = sum(all_ for log, (all_, _) in logs.items() if log in self._of_tables)
        return planned - now, now, max(there, planned - changes) + changes + self._waiting()

    def _waiting(self) -> int:
        """Files with changes of other tables that are newer than all that were read."""
        return sum(
            batch > self._newest.get(use.number, -1)
            for use in self._uses
            for batch in chain.files(use.directory(self._home))
        )

    def _there(self) -> int:
        """How many files there are; looked for again when that took a small part of the time since."""
        begun = time.monotonic()
        if begun >= self._look_after:
            self._found = sum(1 for path in self._paths for _ in _files(path))
            self._look_after = time.monotonic() + (time.monotonic() - begun) / LOOKING_SHARE
        return self._found

    def _read(self, log: Path) -> tuple[int, int]:
        """Files in a source's log, and those of its newest entry if that is of the batch under way."""
        # A compacted entry holds all before it as well.
        entries = self._home.log_entries(log)
        there = set(entries.values())
        self._lines = {entry: n for entry, n in self._lines.items() if entry.parent != log or entry in there}
        compact = max((batch for batch, entry in entries.items() if entry.suffix), default=0)
        newest = max(entries, default=None)
        if newest is None:
            return 0, 0
        total = sum(self._count(entry) for batch, entry in entries.items() if batch >= compact)
        # A compacted one tells of many batches: better too far on for a moment than back at the start.
        under_way = not entries[newest].suffix and self._after_last_commit(entries[newest])
        return total, self._count(entries[newest]) if under_way else 0

    def _after_last_commit(self, entry: Path) -> bool:
        committed = self._home.committed()
        if committed is None:
            return True
        try:
            commit = self._home.checkpoint / "commits" / str(committed)
            return entry.stat().st_mtime_ns > commit.stat().st_mtime_ns
        except FileNotFoundError:
            return False

    def _count(self, entry: Path) -> int:
        # Entries never change, so each is read once.
        if entry not in self._lines:
            try:
                content = entry.read_bytes()
            except OSError:
                return 0
            # Not what the table reads beside its streams and other tables, which is in its home.
            lines = sum(1 for line in content.split(b"\n")[1:] if line and file_names.OF_HOME not in line)
            given = chain.logged(content)
            self._lines[entry] = lines + len(given)
            for use, batch, _ in given:
                self._of_tables.add(entry.parent)
                self._newest[use] = max(batch, self._newest.get(use, -1))
        return self._lines[entry]


def _files(path: str) -> Iterator[str]:
    """What Spark would read: no hidden files, directories to any depth."""
    for found in glob.iglob(path):
        if os.path.isfile(found):
            yield found
        for directory, below, names in os.walk(found):
            below[:] = [name for name in below if not name.startswith((".", "_"))]
            yield from (os.path.join(directory, name) for name in names if not name.startswith((".", "_")))
