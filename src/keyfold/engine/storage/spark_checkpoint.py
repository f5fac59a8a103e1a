"""Spark's checkpoint of one query: the content of its offset and commit logs, and how they are rewritten."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.source_logs import SourceLogs
from keyfold.engine.storage.source_offsets import FilesOffset, SourceOffset, parse_offset
from keyfold.engine.storage.state_files import StateFiles
from keyfold.engine.storage.stored_file import StoredFile

_PARTITIONS: Final = "spark.sql.shuffle.partitions"


def new_metadata() -> bytes:
    """Metadata for a copy: two queries with the same id stop each other in a shared session."""
    return json.dumps({"id": str(uuid.uuid4())}).encode()


@dataclass(frozen=True)
class SparkCheckpoint:
    """A checkpoint directory as Spark 4 writes it."""

    storage: Storage

    @property
    def metadata(self) -> StoredFile:
        """The file with the query's id."""
        return self._file("metadata")

    @property
    def sources(self) -> SourceLogs:
        """The logs of the files that its sources have read."""
        return SourceLogs(self.storage)

    @property
    def state(self) -> StateFiles:
        """The files of the state stores."""
        return StateFiles(self.storage)

    def offset_file(self, batch: int) -> StoredFile:
        """The offset log's entry for a batch, written when the batch is planned."""
        return self._file(f"offsets/{batch}")

    def commit_file(self, batch: int) -> StoredFile:
        """The commit log's entry for a batch, written when the batch is finished."""
        return self._file(f"commits/{batch}")

    def planned_batch(self) -> int | None:
        """The newest batch in the offset log: planned, perhaps committed."""
        return self._newest("offsets")

    def committed_batch(self) -> int | None:
        """The newest batch in the commit log."""
        return self._newest("commits")

    def is_after_last_commit(self, entry: StoredFile) -> bool:
        """Whether an entry of a source's log is later than the newest commit: it is for the running batch.

        The mapping of positions in the offset log to sources is not known here, so an entry counts as
        committed if any source has reached its number. That is accurate enough to show progress.
        """
        committed = self.committed_batch()
        if committed is None:
            return True
        try:
            offsets = self.offsets(committed)
        except (OSError, ValueError):
            return False
        return int(entry.name.partition(".")[0]) not in map(_log_entry, offsets)

    def uncommit_last(self) -> None:
        """Removes the commit of the newest planned batch, which Spark then runs again; for tests."""
        begun = self.planned_batch()
        if begun is not None:
            for name in (f"commits/{begun}", f"commits/.{begun}.crc"):
                self.storage.delete(name)

    def sync_plan(self, batch: int) -> None:
        """Flushes the planned input of a batch before its results are written.

        After a power cut Spark could otherwise plan the batch again with other rows.
        """
        logs = map(self.sources.entries, self.sources.directories())
        newest = [entries[max(entries)] for entries in logs if entries]
        for file in (*newest, self.offset_file(batch)):
            self.storage.flush(file.path)

    def sync_commit(self, batch: int) -> None:
        """Flushes the commit of a batch, and the input it records, before the batch is published."""
        for file in (self.offset_file(batch), self.commit_file(batch)):
            self.storage.flush(file.path)

    def watermark_ms(self, batch: int) -> int | None:
        """The watermark that a batch runs with, in milliseconds since the epoch."""
        try:
            found = int(self._offsets(batch)[0].get("batchWatermarkMs", 0))
        except (OSError, ValueError, IndexError):
            return None
        return found or None

    def watermark(self, batch: int) -> datetime | None:
        """The same as a datetime; None if Python's datetime can't represent it."""
        ms = self.watermark_ms(batch)
        try:
            return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None

    def next_watermark(self, batch: int) -> datetime | None:
        """The watermark of the batch after a committed one, as the commit records it."""
        try:
            found = json.loads(self.commit_file(batch).read_text().splitlines()[1])
            ms = int(found.get("nextBatchWatermarkMs", 0))
            return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
        except (OverflowError, ValueError, OSError, IndexError):
            return None

    def offsets(self, batch: int) -> list[SourceOffset]:
        """The offset of each source up to which a batch reads."""
        return [parse_offset(document) for document in self.offset_documents(batch)]

    def offset_documents(self, batch: int) -> list[Any]:
        """The same in Spark's own form, for manifests."""
        return self._offsets(batch)[1:]

    def state_codec(self) -> str | None:
        """The compression codec of the state's changelog files."""
        return self.setting("spark.sql.streaming.stateStore.compression.codec")

    def partitions(self) -> int | None:
        """The number of state partitions, fixed by the first batch and only changed by a rescale."""
        found = self.setting(_PARTITIONS)
        return None if found is None else int(found)

    def before_resizes(self, batch: int) -> int:
        """A batch, or the last one before it that is not a resize of the state.

        A resize changes no row. It is a batch of the state, but not of the log, so followers of the log never
        reach it.
        """
        while self._resizes(batch):
            batch -= 1
        return batch

    def _resizes(self, batch: int) -> bool:
        """Whether a batch is Spark's own, which reads no rows and runs no hook."""
        try:
            (before, *read), (now, *reads) = self._offsets(batch - 1), self._offsets(batch)
            return read == reads and before["conf"][_PARTITIONS] != now["conf"][_PARTITIONS]
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def setting(self, key: str) -> str | None:
        """A setting of the query that Spark keeps from its first batch on."""
        try:
            return str(self._offsets(self.planned_batch() or 0)[0]["conf"][key])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def log_offsets(self, batch: int, numbers: Iterable[int]) -> dict[int, int]:
        """The log entry up to which a batch reads each source; -1 for a source that reads no files.

        `numbers`: the number of the source at each position of the offset log.
        """
        try:
            offsets = self.offsets(batch)
        except (OSError, ValueError):
            return {}
        return dict(zip(numbers, map(_log_entry, offsets), strict=False))

    def missing_log_entries(self, numbers: Iterable[int]) -> list[StoredFile]:
        """The entries that the source logs should contain up to the newest planned batch."""
        begun = self.planned_batch()
        return self.sources.missing({} if begun is None else self.log_offsets(begun, numbers))

    def commit_state(self, batch: int, ids: Sequence[str | None]) -> None:
        """Makes the commit of a batch refer to another state of operator 0, by its partitions' ids."""
        file = self.commit_file(batch)
        version, _, text = file.read_text().partition("\n")
        commit = json.loads(text)
        commit["stateUniqueIds"] = {**(commit.get("stateUniqueIds") or {}), "0": [[one] for one in ids]}
        # The checksum would not match; without one Spark compares nothing.
        self.storage.delete(f"commits/.{batch}.crc")
        self.storage.put(file.path, f"{version}\n{json.dumps(commit, separators=(',', ':'))}".encode())

    def forget_sources(self) -> None:
        """Resets the positions of the sources; state and batches stay.

        The next batch reads its sources, which may have been replaced under the same numbers, from their
        start.
        """
        for name in [name for name in self.storage.list("offsets") if name.isdecimal()]:
            version, metadata, *offsets = self.storage.read(f"offsets/{name}").decode().splitlines()
            # The checksum would not match; without one Spark compares nothing.
            self.storage.delete(f"offsets/.{name}.crc")
            lines = [version, metadata, *("-" for _ in offsets)]
            self.storage.put(f"offsets/{name}", "\n".join(lines).encode())
        self.storage.delete("sources")

    def relocate(self, to: str | None = None) -> None:
        """Rewrites absolute paths in the state metadata after the home was moved or copied.

        They would otherwise be invalid, or lead to the home that was copied. `to`: the future path of the
        checkpoint, if it is about to be moved.
        """
        # Spark writes local paths with one slash.
        root = (to or self.storage.uri()).replace("file://", "file:", 1)
        for file in self.state.metadata():
            version, _, text = file.read_text().partition("\n")
            metadata = json.loads(text)
            for store in metadata["stateStoreInfo"]:
                paths = store.get("stateSchemaFilePaths", [])
                store["stateSchemaFilePaths"] = [f"{root}{_below_checkpoint(p)}" for p in paths]
            if metadata != json.loads(text):
                # The checksum would not match; without one Spark compares nothing.
                self.storage.delete(f"{file.parent.path}/.{file.name}.crc")
                content = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
                self.storage.put(file.path, f"{version}\n{content}".encode())

    def operators(self) -> list[int]:
        """The numbers of the query's stateful operators."""
        return sorted(int(name) for name in self.storage.list("state") if name.isdecimal())

    def keeps_state(self, batch: int) -> bool:
        """Whether the state of a committed batch exists, judging by the names of files."""
        try:
            commit = json.loads(self.commit_file(batch).read_text().splitlines()[1])
        except (OSError, ValueError, IndexError):
            return False
        for operator, partitions in (commit.get("stateUniqueIds") or {}).items():
            for partition, ids in enumerate(partitions):
                names = self.storage.list(f"state/{operator}/{partition}")
                if ids and ids[0] and not any(name.startswith(f"{batch + 1}_{ids[0]}") for name in names):
                    return False
        return True

    def _file(self, name: str) -> StoredFile:
        return StoredFile(self.storage, name)

    def _newest(self, log: str) -> int | None:
        return max((int(name) for name in self.storage.list(log) if name.isdecimal()), default=None)

    def _offsets(self, batch: int) -> list[Any]:
        """An entry of the offset log: the batch's metadata, then the offset of each source."""
        lines = self.offset_file(batch).read_text().splitlines()[1:]
        return [None if line == "-" else json.loads(line) for line in lines]


def is_whole(file: StoredFile) -> bool:
    """Whether a file is complete: a version line, except in `metadata`, then one JSON value per line."""
    try:
        lines = file.read_text().splitlines()
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


def _log_entry(offset: SourceOffset) -> int:
    """The entry of its log up to which a file source reads; -1 for a source that reads no files."""
    return offset.entry if isinstance(offset, FilesOffset) else -1
