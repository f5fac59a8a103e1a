"""The changes of a batch as a DataFrame, for sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keyfold.engine.internal_columns import MERGED_BATCH
from keyfold.engine.log.manifest import Part
from keyfold.engine.log.table_log import TableLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def change_frame(spark: SparkSession, log: TableLog, batch: int, parts: Sequence[Part]) -> DataFrame:
    """The rows of some parts of a batch's changes, as the log has them."""
    files = [log.storage.uri(part.path) for part in parts]
    found = spark.read.parquet(*files)
    if parts[0].first is None:
        return found
    # A file of merged batches, which contains the changes of several.
    from pyspark.sql.types import LongType, StructField, StructType

    # The schema that Spark wrote into the files lacks the column with the batch.
    own = [field for field in found.schema.fields if field.name != MERGED_BATCH]
    schema = StructType([*own, StructField(MERGED_BATCH, LongType())])
    merged = spark.read.schema(schema).parquet(*files)
    return merged.where(merged[MERGED_BATCH] == batch).drop(MERGED_BATCH)
