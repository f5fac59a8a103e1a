"""A count and a checksum over a whole state, to compare two states key by key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from keyfold.engine import session
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint
from keyfold.engine.storage.state_digest import FamilyDigest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EVENT_TIME: Final = "__event_time"
"""The last field of a key of a join in format 4."""


def digest(spark: SparkSession, checkpoint: Storage, batch: int) -> list[FamilyDigest]:
    """The digest of a checkpoint's state as of a batch."""
    found = []
    for operator in SparkCheckpoint(checkpoint).operators():
        found += of_rows(read_store(spark, checkpoint, operator, batch), operator)
    return sorted(found)


def of_rows(rows: DataFrame, operator: int) -> list[FamilyDigest]:
    """The digest of the rows of an operator's state, in the form that `read_store` returns."""
    found = json.loads(session.kernel(rows.sparkSession).stateDigest(rows._jdf))
    return sorted(FamilyDigest(operator, *family) for family in found)


def read_store(
    spark: SparkSession, checkpoint: Storage, operator: int, batch: int, store: str = "default"
) -> DataFrame:
    """Everything in an operator's store.

    In bytes: `partition_key`, `key_bytes`, `value_bytes`, `column_family_name`.
    """
    from pyspark.sql import functions as F

    found = (
        spark.read.format("statestore")
        .option("path", checkpoint.uri())
        .option("batchId", batch)
        .option("operatorId", operator)
        .option("storeName", store)
        .option("_readAllColumnFamilies", "true")
        .load()
    )
    names = _names(found)
    if names != [*(f"field{i}" for i in range(len(names) - 1)), _EVENT_TIME]:
        return found
    # Spark takes all of a join's key for the partition key, which is the key without the time.
    key = F.struct(*(F.col(f"partition_key.{name}") for name in names[:-1]))
    return found.withColumn("partition_key", key)


def _names(found: DataFrame) -> list[str]:
    return list(found.schema["partition_key"].dataType.names)  # type: ignore[attr-defined]
