"""Spark's checkpoint of one query: its offset, commit and source logs, and its state metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keyfold.engine.storage.files import replace_file, sync


@dataclass(frozen=True)
class SparkCheckpoint:
    """A checkpoint directory as Spark 4 writes it."""

    path: Path

    @property
    def metadata(self) -> Path:
        """The file with the query's id."""
        return self.path / "metadata"

    @property
    def state(self) -> Path:
        """The directory of the state stores."""
        return self.path / "state"

    def offset_file(self, batch: int) -> Path:
        """The offset log's entry for a batch: written when it is planned."""
        return self.path / "offsets" / str(batch)

    def commit_file(self, batch: int) -> Path:
        """The commit log's entry for a batch: written when it is done."""
        return self.path / "commits" / str(batch)

    def begun(self) -> int | None:
        """The newest batch in the offset log: planned, and perhaps committed."""
        return _newest(self.path / "offsets")

    def committed(self) -> int | None:
        """The newest batch in the commit log."""
        return _newest(self.path / "commits")

    def is_after_last_commit(self, entry: Path) -> bool:
        """Whether a file was written after the newest commit, and so for the batch that is running."""
        committed = self.committed()
        if committed is None:
            return True
        try:
            return entry.stat().st_mtime_ns > self.commit_file(committed).stat().st_mtime_ns
        except FileNotFoundError:
            return False

    def uncommit_last(self) -> None:
        """Removes the commit of the newest planned batch, which Spark then runs again; for tests."""
        begun = self.begun()
        if begun is not None:
            commit = self.commit_file(begun)
            for file in (commit, commit.with_name(f".{commit.name}.crc")):
                file.unlink(missing_ok=True)

    def sync_plan(self, batch: int) -> None:
        """Flushes what the batch is to read before its results are written.

        After a power cut Spark would otherwise plan the batch again with other rows.
        """
        logs = map(self.log_entries, self.source_logs())
        newest = [entries[max(entries)] for entries in logs if entries]
        for path in (*newest, self.offset_file(batch)):
            if path.exists():
                sync(path)
                sync(path.parent)

    def watermark_ms(self, batch: int) -> int | None:
        """The watermark that a batch runs with, in milliseconds since the epoch."""
        try:
            found = int(self._offsets(batch)[0].get("batchWatermarkMs", 0))
        except (OSError, ValueError, IndexError):
            return None
        return found or None

    def watermark(self, batch: int) -> datetime | None:
        """The same as a datetime; None if it is beyond what Python's datetime can represent."""
        ms = self.watermark_ms(batch)
        try:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None

    def state_codec(self) -> str | None:
        """The compression codec of the state's changelog files."""
        return self._setting("spark.sql.streaming.stateStore.compression.codec")

    def partitions(self) -> int | None:
        """The number of state partitions, which the first batch fixes and only a resize changes."""
        found = self._setting("spark.sql.shuffle.partitions")
        return None if found is None else int(found)

    def _setting(self, key: str) -> str | None:
        """A setting of the query that Spark keeps from its first batch on."""
        try:
            return str(self._offsets(self.begun() or 0)[0]["conf"][key])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def source_logs(self) -> list[Path]:
        """The log directory of each file source, in the order of their numbers as text."""
        return sorted(self.path.glob("sources/[0-9]*"))

    def log_entries(self, log: Path) -> dict[int, Path]:
        """The entries of a source's log by number; the compacted one where both forms exist."""
        entries: dict[int, Path] = {}
        for entry in log.glob("[0-9]*"):
            number = int(entry.name.partition(".")[0])
            if number not in entries or entry.suffix:
                entries[number] = entry
        return entries

    def log_offsets(self, batch: int, numbers: Iterable[int]) -> dict[int, int]:
        """The log entry up to which a batch reads each source; -1 for a source that is no file source.

        `numbers`: the number of the source behind each position of the offset log.
        """
        try:
            offsets = self._offsets(batch)[1:]
        except (OSError, ValueError):
            return {}
        upto = (int(at.get("logOffset", -1)) if isinstance(at, dict) else -1 for at in offsets)
        return dict(zip(numbers, upto, strict=False))

    def missing_log_entries(self, numbers: Iterable[int]) -> list[Path]:
        """Entries that the source logs should contain, back to each log's newest compaction."""
        begun = self.begun()
        missing = []
        for source, at in ({} if begun is None else self.log_offsets(begun, numbers)).items():
            log = self.path / "sources" / str(source)
            entries = self.log_entries(log)
            number = max([at, *entries])
            while number >= 0 and not (number in entries and entries[number].suffix):
                if number not in entries:
                    missing.append(log / str(number))
                number -= 1
        return missing

    def skipped(self, source: int) -> list[dict[str, Any]]:
        """The files that a source skips."""
        try:
            return list(json.loads(self._skipped(source).read_text("utf-8")))
        except FileNotFoundError:
            return []

    def skip(self, source: int, rows: list[dict[str, Any]]) -> None:
        """Makes a source skip more files, from its next batch on."""
        replace_file(self._skipped(source), json.dumps([*self.skipped(source), *rows]).encode())

    def relocate(self) -> None:
        """Rewrites absolute paths in the state metadata after the home was moved or copied.

        They would otherwise lead to nothing, or to the project that the home was copied from.
        """
        for file in self.state_metadata():
            version, _, text = file.read_text("utf-8").partition("\n")
            metadata = json.loads(text)
            for store in metadata["stateStoreInfo"]:
                paths = store.get("stateSchemaFilePaths", [])
                store["stateSchemaFilePaths"] = [f"file:{self.path}{_below_checkpoint(p)}" for p in paths]
            if metadata != json.loads(text):
                # The checksum would not match; without one Spark compares nothing.
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
                content = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
                replace_file(file, f"{version}\n{content}".encode())

    def state_metadata(self) -> list[Path]:
        """The metadata files of the query's stateful operators."""
        return list(self.path.glob("state/*/_metadata/v2/[0-9]*"))

    def state_schemas(self) -> list[Path]:
        """The schema files of the query's stateful operators."""
        found = self.path.glob("state/*/_stateSchema/*/*")
        return [file for file in found if not file.name.startswith(".")]

    def state_changelogs(self) -> list[Path]:
        """The changelog files of the state, newest first."""
        found = self.path.glob("state/**/*.changelog")
        visible = [file for file in found if not file.name.startswith(".")]
        return sorted(visible, key=lambda file: -file.stat().st_mtime)

    def _skipped(self, source: int) -> Path:
        return self.path / "sources" / str(source) / "skipped.json"

    def _offsets(self, batch: int) -> list[Any]:
        """An entry of the offset log: the batch's metadata, then the offset of each source."""
        lines = self.offset_file(batch).read_text().splitlines()[1:]
        return [None if line == "-" else json.loads(line) for line in lines]


def is_whole(file: Path) -> bool:
    """Whether a file is complete: a version line, unless it is `metadata`, then one JSON value a line."""
    try:
        lines = file.read_text("utf-8").splitlines()
        if file.name != "metadata":
            version, *lines = lines
            if not re.fullmatch(r"v\d+", version):
                return False
        for line in lines:
            if line != "-":
                json.loads(line)
    except (OSError, ValueError):
        return False
    return bool(lines)


def _below_checkpoint(path: str) -> str:
    return path[path.rindex("/state/") :]


def _newest(log: Path) -> int | None:
    return max((int(p.name) for p in log.glob("[0-9]*")), default=None)
