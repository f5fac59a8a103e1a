"""The state of a table as of a batch, readable by part and key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from keyfold.engine.state import parts as state_parts
from keyfold.engine.state.parts import PartRows, StatePart
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StateOf:
    """The state of a table as of a batch: in its home, or in a savepoint."""

    table: str
    checkpoint: SparkCheckpoint
    batch: int
    savepoint: str | None = None

    @property
    def uri(self) -> str:
        """For Spark."""
        return self.checkpoint.storage.uri()

    def parts(self, spark: SparkSession) -> list[StatePart]:
        """The readable parts."""
        return state_parts.parts(spark, self.uri, self.batch)

    def rows(
        self, spark: SparkSession, part: StatePart | str | None = None, key: Sequence[str] = ()
    ) -> PartRows:
        """The rows of a part; of one key, or of all keys that begin with it."""
        if not isinstance(part, StatePart):
            part = state_parts.find_part(self.table, self.parts(spark), part)
        found = state_parts.rows(spark, self.uri, self.batch, part)
        return state_parts.of_key(found, self.table, list(key)) if key else found
