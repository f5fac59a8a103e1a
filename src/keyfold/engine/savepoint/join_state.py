"""Which states of joins can be written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from keyfold.engine.recovery import state_parts
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "spark.sql.streaming.join.stateFormatVersion"
# What Spark 4.3.0 has written anew of this format, neither its state reader nor the query can read: "Invalid
# byte array backed UnsafeRow". Format 3 has no such fault.
_BROKEN: Final = "4"


def require_rewritable(spark: SparkSession, table: str, checkpoint: SparkCheckpoint, batch: int) -> None:
    """Refuses a table that joins two streams in a format that can't be written anew, before anything is."""
    if checkpoint.setting(_FORMAT) == _BROKEN and has_join(spark, checkpoint, batch):
        raise BadOption(
            f"{table} joins two streams in Spark's state format {_BROKEN}, which Spark 4.3 can't read back "
            "once it is written anew; nothing was changed",
            given=f"{_FORMAT}={_BROKEN}",
            hint=f"a table that first starts with {_FORMAT}=3 can be changed; keyfold reset TABLE lets this "
            "one start from the first row",
        )


def has_join(spark: SparkSession, checkpoint: SparkCheckpoint, batch: int) -> bool:
    """Whether a join of two streams is part of a table."""
    parts = state_parts.parts(spark, checkpoint.storage.uri(), batch)
    return any(part.kind == "join" for part in parts)
