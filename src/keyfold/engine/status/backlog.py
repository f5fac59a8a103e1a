"""The backlog of a table: input that exists and is not in Spark's source logs yet.

Files of streams are counted in their directories; changes of other tables are removed once they are read, so
the log shows how many there were.
"""

from __future__ import annotations

import time
from typing import Final

from keyfold.engine.log import chain
from keyfold.engine.sources.connectors import SOURCES
from keyfold.engine.sources.file_names import OF_HOME
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.plan import nodes
from keyfold.plan.nodes import TableSpec

COUNTING_SHARE: Final = 0.02


class Backlog:
    """The files that one table reads: how many exist, and how many were read."""

    def __init__(self, spec: TableSpec, home: TableHome) -> None:
        self._home = home
        self._uses = chain.uses(spec)
        self._connectors = [source.connector for source in nodes.sources(spec.input)]
        self._lines: dict[StoredFile, int] = {}
        self._of_tables: set[StoredFile] = set()
        self._newest: dict[int, int] = {}
        self._found: int | None = 0
        self._count_after = 0.0

    def files(self) -> tuple[int, int, int] | None:
        """The files read before the running batch, those in that batch, and all that exist."""
        available = self._available()
        if available is None:
            return None
        logs = {log: self._read(log) for log in self._home.spark.source_logs()}
        planned, now = sum(all_ for all_, _ in logs.values()), sum(last for _, last in logs.values())
        changes = sum(all_ for log, (all_, _) in logs.items() if log in self._of_tables)
        return planned - now, now, max(available, planned - changes) + changes + self._waiting()

    def _waiting(self) -> int:
        """Files with changes of other tables that are newer than all that were read."""
        return sum(
            batch > self._newest.get(use.number, -1)
            for use in self._uses
            for batch in chain.files(use.directory(self._home))
        )

    def _available(self) -> int | None:
        """How many files exist; counted again once the last count took a small share of the time since."""
        begun = time.monotonic()
        if begun >= self._count_after and self._found is not None:
            counts = [SOURCES[c.kind].available(c) for c in self._connectors]
            self._found = None if None in counts else sum(n for n in counts if n is not None)
            self._count_after = time.monotonic() + (time.monotonic() - begun) / COUNTING_SHARE
        return self._found

    def _read(self, log: StoredFile) -> tuple[int, int]:
        """The files in a source's log, and those of its newest entry if the running batch wrote it."""
        # A compacted entry contains all before it.
        entries = self._home.spark.log_entries(log)
        there = set(entries.values())
        self._lines = {entry: n for entry, n in self._lines.items() if entry.parent != log or entry in there}
        compact = max((batch for batch, entry in entries.items() if entry.suffix), default=0)
        newest = max(entries, default=None)
        if newest is None:
            return 0, 0
        total = sum(self._count(entry) for batch, entry in entries.items() if batch >= compact)
        # A compacted entry covers many batches: progress may show too much for a moment, never start over.
        under_way = not entries[newest].suffix and self._home.spark.is_after_last_commit(entries[newest])
        return total, self._count(entries[newest]) if under_way else 0

    def _count(self, entry: StoredFile) -> int:
        # Entries are immutable, so each is read once.
        if entry not in self._lines:
            try:
                content = entry.read_bytes()
            except OSError:
                return 0
            # Without control rows and replays, which are files of the home.
            lines = sum(1 for line in content.split(b"\n")[1:] if line and OF_HOME not in line)
            changes_read = chain.logged(content)
            self._lines[entry] = lines + len(changes_read)
            for use, batch, _ in changes_read:
                self._of_tables.add(entry.parent)
                self._newest[use] = max(batch, self._newest.get(use, -1))
        return self._lines[entry]
