"""The backlog of a table, or of a stream with a log: input that exists and that it has not begun to read.

Files of streams are counted in their directories and in Spark's source logs; of what has a log, the batches
in it and in Spark's offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from keyfold.engine.log import readers
from keyfold.engine.log.readers import Use
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.sources.connectors import SOURCES
from keyfold.engine.sources.file_names import OF_HOME
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.plan.nodes import Source

COUNTING_SHARE: Final = 0.02


class Backlog:
    """What one query reads, files and batches of logs: how many exist, and how many were read.

    `upstream`: the backlogs of the streams whose logs it reads.
    """

    def __init__(
        self,
        home: TableHome,
        sources: Iterable[Source],
        uses: Sequence[Use] = (),
        upstream: Sequence[Backlog] = (),
    ) -> None:
        self._home, self._place, self._uses, self._upstream = home, home.app, uses, upstream
        self._connectors = [source.connector for source in sources]
        self._lines: dict[StoredFile, int] = {}
        self._has_changes: dict[tuple[str, int], bool] = {}
        self._found: int | None = 0
        self._count_after = 0.0

    def files(self) -> tuple[int, int, int] | None:
        """The files read before the running batch, those in that batch, and all that exist."""
        available = self._available()
        if available is None:
            return None
        logs = [self._read(log) for log in self._home.spark.sources.directories()]
        planned, now = sum(all_ for all_, _ in logs), sum(last for _, last in logs)
        found = [(planned - now, now, max(available, planned)), *map(self._batches, self._uses)]
        for stream in self._upstream:
            if (files := stream.files()) is None:
                return None
            # Everything that the stream has not begun to read is backlog.
            found.append((0, 0, files[2] - files[0] - files[1]))
        before, now, there = (sum(counts) for counts in zip(*found, strict=True))
        return before, now, there

    def _batches(self, use: Use) -> tuple[int, int, int]:
        """The same of a log's batches; those without changes do not have to be read."""
        read, planned = readers.read_upto(self._place, use), readers.planned_upto(self._place, use)
        log = TableLog(use.upstream(self._place).log_files)
        left = sum(self._changes(log, use.table, batch) for batch in log.batches() if batch > planned)
        return read + 1, planned - read, planned + 1 + left

    def _changes(self, log: TableLog, table: str, batch: int) -> bool:
        # Manifests are immutable, so each is read once.
        if (table, batch) not in self._has_changes:
            manifest = log.find(batch)
            self._has_changes[table, batch] = manifest is not None and manifest.counts["change"] > 0
        return self._has_changes[table, batch]

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
        entries = self._home.spark.sources.entries(log)
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
            self._lines[entry] = sum(1 for line in content.split(b"\n")[1:] if line and OF_HOME not in line)
        return self._lines[entry]
