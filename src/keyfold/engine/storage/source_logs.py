"""Spark's logs of the files that a query's sources have read, and of those they skip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.stored_file import StoredFile


@dataclass(frozen=True)
class SourceLogs:
    """The directory `sources` of a checkpoint: a log for each file source, by number."""

    storage: Storage

    def directories(self) -> list[StoredFile]:
        """The log directory of each file source, in the order of their numbers as text."""
        return StoredFile(self.storage, "sources").numbered_entries()

    def entries(self, log: StoredFile) -> dict[int, StoredFile]:
        """The entries of a source's log by number; the compacted one where both forms exist."""
        entries: dict[int, StoredFile] = {}
        for entry in log.numbered_entries():
            number = int(entry.name.partition(".")[0])
            if number not in entries or entry.suffix:
                entries[number] = entry
        return entries

    def missing(self, upto: Mapping[int, int]) -> list[StoredFile]:
        """The entries that the logs should contain up to these, back to each log's newest compaction."""
        missing = []
        for source, at in upto.items():
            log = StoredFile(self.storage, f"sources/{source}")
            entries = self.entries(log)
            number = max([at, *entries])
            while number >= 0 and not (number in entries and entries[number].suffix):
                if number not in entries:
                    missing.append(log / number)
                number -= 1
        return missing

    def skipped_files(self, source: int) -> list[dict[str, Any]]:
        """The files that a source skips."""
        try:
            return list(json.loads(self.storage.read(_skipped_name(source))))
        except FileNotFoundError:
            return []

    def skip(self, source: int, rows: list[dict[str, Any]]) -> None:
        """Makes a source skip more files, from its next batch on."""
        self.storage.put(_skipped_name(source), json.dumps([*self.skipped_files(source), *rows]).encode())

    def renumber(self, batch: int, number: int) -> None:
        """Applies the skipped files of one batch to a batch of another number."""
        for source in (int(log.name) for log in self.directories()):
            if rows := self.skipped_files(source):
                changed = [{**row, "batch": number} if row["batch"] == batch else row for row in rows]
                self.storage.put(_skipped_name(source), json.dumps(changed).encode())


def _skipped_name(source: int) -> str:
    return f"sources/{source}/skipped.json"
