"""Files of streams by their names: `<stream>:/<path below the declared directory>`, wherever that is now.

A source's log names the files it has read, so a project that was moved or copied continues with them. When a
stream reads another directory than before, the files in it show whether it was moved or is a different one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from keyfold.engine.session import kernel
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import StateMismatch
from keyfold.kernel.api import SourceApi

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# How a log entry begins whose file is in the table's home.
OF_HOME: Final = b'"path":":/'
_SHOWN: Final = 5
_LOG: Final = logging.getLogger("keyfold")


class ReadFile(NamedTuple):
    """A file in a source's log: its size and time when it was read, and the log entry."""

    name: str
    size: int
    time: int
    entry: int

    @property
    def stream(self) -> str:
        """Its stream; empty for files of the home."""
        return self.name.partition(":")[0]

    @property
    def below(self) -> str:
        """Its path below the stream's directory."""
        return self.name.partition(":")[2]


@dataclass(frozen=True)
class QueryFiles:
    """The file sources in a table's plan."""

    plan: DataFrame

    def directories(self) -> dict[str, str]:
        """The directory of each stream of files."""
        found: dict[str, str] = json.loads(self._kernel.sourceDirectories(self.plan._jdf))
        return found

    def numbers(self) -> list[int]:
        """The number of the source behind each position of Spark's offset log; some sources have several."""
        return list(self._kernel.sourceNumbers(self.plan._jdf))

    def list_files(self, stream: str) -> list[ReadFile]:
        """The files that a stream could read now."""
        found = json.loads(self._kernel.listFiles(self.plan._jdf, stream))
        return [ReadFile(name, size, time, 0) for name, size, time in found]

    def locate(self, stream: str, names: list[str]) -> list[tuple[str, bool]]:
        """The path of each of a stream's files, and whether it exists."""
        found = json.loads(self._kernel.locateFiles(self.plan._jdf, stream, names))
        return [(path, exists) for path, exists in found]

    @property
    def _kernel(self) -> SourceApi:
        return kernel(self.plan.sparkSession)


def name_files(
    frame: DataFrame, *, stream: str = "", within: str | None = None, recursive: str | None = None
) -> DataFrame:
    """The frame with its files known by their names, of a stream or below a directory of the home.

    `recursive`: whether subdirectories are read, if that differs from how the frame was loaded.
    """
    from pyspark.sql import DataFrame

    spark = frame.sparkSession
    return DataFrame(kernel(spark).watchFiles(frame._jdf, stream, within, recursive), spark)


def read_files(checkpoint: SparkCheckpoint) -> list[tuple[int, ReadFile]]:
    """The files that each source of a table has read or planned, with the source's number."""
    return [
        (int(log.name), file)
        for log in checkpoint.sources.directories()
        for file in _logged_files(checkpoint, log)
    ]


def _logged_files(checkpoint: SparkCheckpoint, log: StoredFile) -> Iterator[ReadFile]:
    entries = checkpoint.sources.entries(log)
    # A compacted entry contains all before it.
    first = max((number for number, entry in entries.items() if entry.suffix), default=0)
    for number, entry in sorted(entries.items()):
        if number >= first:
            for line in entry.read_text().split("\n")[1:]:
                found = json.loads(line)
                yield ReadFile(found["path"], found["size"], found["timestamp"], found["batchId"])


def check(
    table: str, site: object, stored: Mapping[str, str], files: QueryFiles, checkpoint: SparkCheckpoint
) -> None:
    """Refuses a stream that reads another directory now, in which files under known names differ."""
    for stream, directory in files.directories().items():
        before = stored.get(stream)
        if before is not None and before != directory:
            moved = f"{stream} read {before} before, and reads {directory} now"
            read = {file.below: file for _, file in read_files(checkpoint) if file.stream == stream}
            there = files.list_files(stream)
            _refuse_different(table, site, stream, moved, there, read)
            _refuse_read_again(table, site, moved, there, read)


def _refuse_different(
    table: str, site: object, stream: str, moved: str, there: list[ReadFile], read: dict[str, ReadFile]
) -> None:
    """If most files with a known name are as they were, the directory was moved; otherwise it is another."""
    known = [file for file in there if file.below in read]
    other = [file.below for file in known if not _alike(file, read[file.below])]
    if known and 2 * len(other) > len(known):
        raise StateMismatch(
            f"{table}: the directory has different files under names that were already read; "
            "nothing was changed",
            where=site,
            given=f"{moved}: {_some(other)}",
            hint=f"point {stream} to the old directory again; or give the new files other names; or read "
            "them with another table, or in another home (keyfold run APP.py --home DIR)",
        )
    if other:
        _LOG.warning(
            "%s: files are not read, because files with their names already were: %s", table, _some(other)
        )


def _refuse_read_again(
    table: str, site: object, moved: str, there: list[ReadFile], read: dict[str, ReadFile]
) -> None:
    """Refuses files that seem to have been read under another path."""
    missing = read.keys() - {file.below for file in there}
    sizes = {(Path(below).name, read[below].size) for below in missing}
    new = (file for file in there if file.below not in read)
    again = [file.below for file in new if (Path(file.below).name, file.size) in sizes]
    if again:
        raise StateMismatch(
            f"files that {table} has read would be read again; nothing was changed",
            where=site,
            given=f"{moved}: {_some(again)}",
            hint="files are known by their path below the stream's directory: point the stream to where they "
            "have the paths they had; or give the table a new name, which starts from the first row",
        )


def _alike(one: ReadFile, other: ReadFile) -> bool:
    """A copy may have another time; a file that was replaced has another size and time."""
    return one.size == other.size or one.time == other.time


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name.lstrip("./") for name in names[:_SHOWN]) + more
