"""A batch that was planned and not committed, as after a kill: how a key is erased from a savepoint with it.

An erasure adds a batch to the state, which takes this one's number. So it becomes the next one, with the same
input, and what it has left goes: state that was not committed, and what it has published. After a restore it
runs on the state without the key, and publishes the same changes of all other keys again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import table_removal
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption

_STATE: Final = re.compile(
    r"state/\d+/\d+/(?:[^/]+/)*(\d+)[_.][^/]*(?:changelog|zip|delta|snapshot)(?:\.crc)?"
)
"""A version of a state, which is one more than the batch's number."""
_METADATA: Final = re.compile(r"state/\d+/_metadata/v2/(\d+)")


@dataclass(frozen=True)
class UnfinishedBatch:
    """The newest batch of a table, which only the offset log has."""

    home: TableHome
    number: int

    @property
    def published(self) -> bool:
        """Whether those who follow the table's log may have seen its changes."""
        return TableLog(self.home.log_files).find(self.number) is not None

    def has(self, file: str) -> bool:
        """Whether a file of the log is its own."""
        return file == f"{self.number}.json" or file.startswith(f"data/{self.number}-")

    def log_files(self) -> list[str]:
        """All of these files."""
        return [file.name for file in self.home.log_files.files() if self.has(file.name)]

    def state_files(self) -> list[str]:
        """The files of the checkpoint that it has left."""
        names = [file.name for file in self.home.spark.storage.files() if self._has_state(file.name)]
        return [f"offsets/{self.number}", *names]

    def _has_state(self, name: str) -> bool:
        version, metadata = _STATE.fullmatch(name), _METADATA.fullmatch(name)
        if version:
            return int(version[1]) > self.number
        return metadata is not None and int(metadata[1]) >= self.number

    def plan_next(self, checkpoint: SparkCheckpoint) -> None:
        """Plans it in a checkpoint whose newest batch has taken its number."""
        number, planned = self.number + 1, self.home.spark.offset_file(self.number)
        checkpoint.storage.put(f"offsets/{number}", planned.read_bytes())
        checkpoint.sources.renumber(self.number, number)

    def require_unread(self, place: AppHome) -> None:
        """Refuses it if other tables may have folded what it has published."""
        readers = table_removal.readers(place, self.home.path.name)
        if readers and self.published:
            raise BadOption(
                f"batch {self.number} of {place.path.name}.{self.home.path.name} is published and not "
                f"finished, and {', '.join(readers)} may have read it",
                given=self.home.path.name,
            )


def unfinished_batch(home: TableHome) -> UnfinishedBatch | None:
    """The batch of a table that was planned and not committed, if there is one."""
    begun = home.begun()
    return None if begun is None or begun == home.committed() else UnfinishedBatch(home, begun)
