"""A planned but uncommitted batch, as after a kill: how a key is erased from a savepoint that has one.

An erasure adds a batch to the state, which takes this one's number. So it gets the next number, with the same
input, and everything it has left is deleted: uncommitted state, and what it has published. After a restore it
runs on the state without the key, and publishes the same changes of all other keys again.
"""

from __future__ import annotations

from dataclasses import dataclass

from keyfold.engine.log.table_log import TableLog
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint


@dataclass(frozen=True)
class UnfinishedBatch:
    """The newest batch of a table, which only the offset log has."""

    home: TableHome
    number: int

    @property
    def published(self) -> bool:
        """Whether followers of the table's log may have seen its changes."""
        return TableLog(self.home.log_files).find(self.number) is not None

    def has(self, file: str) -> bool:
        """Whether a file of the log belongs to it."""
        return file == f"{self.number}.json" or file.startswith(f"data/{self.number}-")

    def log_files(self) -> list[str]:
        """All of these files."""
        return [file.name for file in self.home.log_files.files() if self.has(file.name)]

    def checkpoint_files(self) -> list[str]:
        """The files that it has left in the checkpoint."""
        spark = self.home.spark
        return [spark.offset_file(self.number).path, *spark.state.left_by(self.number)]

    def plan_next(self, checkpoint: SparkCheckpoint) -> None:
        """Plans it in a checkpoint whose newest batch has taken its number."""
        number = self.number + 1
        planned = self.home.spark.offset_file(self.number).read_bytes()
        checkpoint.storage.put(checkpoint.offset_file(number).path, planned)
        checkpoint.sources.renumber(self.number, number)


def unfinished_batch(home: TableHome) -> UnfinishedBatch | None:
    """The planned but uncommitted batch of a table, if there is one."""
    begun = home.planned_batch()
    return None if begun is None or begun == home.committed_batch() else UnfinishedBatch(home, begun)
