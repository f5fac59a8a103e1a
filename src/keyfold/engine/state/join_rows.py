"""The rows that a join of two streams keeps, in the form in which all of its state is read and written.

Spark's format 4 has a list of rows for each key and time, and an index of these by time and key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import session
from keyfold.engine.internal_columns import visible
from keyfold.engine.state.join_keys import SIDES
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FORMAT: Final = "spark.sql.streaming.join.stateFormatVersion"
_ROWS: Final = "-keyWithTsToValues"
_INDEX: Final = "-tsWithKey"
"""The suffixes of the names of column families; the side is the prefix."""


def are_by_time(checkpoint: SparkCheckpoint) -> bool:
    """Whether the state of joins has format 4; older ones number the rows of a key."""
    return checkpoint.setting(_FORMAT) == "4"


@dataclass(frozen=True)
class JoinRows:
    """The state of a join as of a batch."""

    spark: SparkSession
    checkpoint: str
    batch: int
    operator: int

    def columns(self) -> dict[str, list[str]]:
        """The user's columns of each side."""
        return {side: visible(self._value(side).names) for side in SIDES}

    def without(self, rows: DataFrame, side: str, mine: Callable[[Column, Any], Column]) -> DataFrame:
        """The state without those rows of a side for which `mine` is true."""
        from pyspark.sql import functions as F
        from pyspark.sql.classic.column import Column as Classic
        from pyspark.sql.types import BooleanType, StructType

        # Beside each row, whether it has found a match.
        schema = StructType([*self._value(side).fields]).add("matched", BooleanType())
        bytes_: Any = F.col("value_bytes")
        decoded = Classic(session.kernel(self.spark).rowFromBytes(bytes_._jc, schema.json()))
        own = F.col("column_family_name") == f"{side}{_ROWS}"
        return rows.where(~F.when(own, mine(decoded, schema)).otherwise(False))

    def with_index(self, rows: DataFrame) -> DataFrame:
        """The state with an index entry for each existing row, as the join writes them."""
        from pyspark.sql import functions as F

        family = F.col("column_family_name")
        named = F.replace(family, F.lit(_ROWS), F.lit(_INDEX)).alias("column_family_name")
        each = rows.where(family.endswith(_ROWS)).select("partition_key", "key_bytes", named)
        # All entries are equal; a side from which nothing is ever removed by time has none.
        index = rows.where(family.endswith(_INDEX)).select("column_family_name", "value_bytes").distinct()
        entries = each.join(F.broadcast(index), "column_family_name")
        return rows.where(~family.endswith(_INDEX)).unionByName(entries)

    def _value(self, side: str) -> Any:
        source = self.spark.read.format("statestore").option("path", self.checkpoint)
        read = source.option("batchId", self.batch).option("operatorId", self.operator)
        return read.option("joinSide", side).load().schema["value"].dataType
