"""The size of a table's state: by column family, by partition, and its largest keys."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keyfold.engine.state.digest import read_store
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class FamilySize:
    """The rows of a column family, and the bytes of their keys and values before compression."""

    operator: int
    family: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class KeySize:
    """A key with the size of its state."""

    operator: int
    key: dict[str, Any]
    rows: int
    bytes: int


@dataclass(frozen=True)
class Spread:
    """How evenly a number of partitions would share the state."""

    partitions: int
    largest_bytes: int
    mean_bytes: float
    sizes: tuple[int, ...] = ()
    """The bytes of each partition."""

    def on_cores(self, cores: int) -> int:
        """The bytes that the busiest of so many cores processes, if each takes the next free partition.

        A batch's time follows this, as far as it is spent on state and not on fixed costs per partition.
        """
        loads = [0] * cores
        for size in self.sizes:
            heapq.heapreplace(loads, loads[0] + size)
        return max(loads)

    @property
    def skew(self) -> float:
        """The largest partition relative to the mean: 1 is even. A batch takes as long as the largest."""
        return self.largest_bytes / self.mean_bytes if self.mean_bytes else 1.0


def families(spark: SparkSession, checkpoint: Storage, batch: int) -> list[FamilySize]:
    """The sizes of all column families as of a batch."""
    from pyspark.sql import functions as F

    found = []
    for operator in SparkCheckpoint(checkpoint).operators():
        rows = _measure(spark, checkpoint, operator, batch).groupBy("column_family_name")
        for row in rows.agg(F.count(F.lit(1)).alias("rows"), F.sum("bytes").alias("bytes")).collect():
            found.append(FamilySize(operator, row["column_family_name"], row["rows"], row["bytes"]))
    return sorted(found, key=lambda one: (one.operator, one.family))


def largest_keys(spark: SparkSession, checkpoint: Storage, batch: int, limit: int) -> list[KeySize]:
    """The keys with the most bytes as of a batch."""
    from pyspark.sql import functions as F

    found = []
    for operator in SparkCheckpoint(checkpoint).operators():
        keys = _measure(spark, checkpoint, operator, batch).groupBy("partition_key")
        sums = keys.agg(F.count(F.lit(1)).alias("rows"), F.sum("bytes").alias("bytes"))
        for row in (
            sums.orderBy(F.desc("bytes"), F.col("partition_key").cast("string")).limit(limit).collect()
        ):
            key = row["partition_key"].asDict(recursive=True)
            found.append(KeySize(operator, key, row["rows"], row["bytes"]))
    return sorted(found, key=lambda one: -one.bytes)[:limit]


def spreads(spark: SparkSession, checkpoint: Storage, batch: int, numbers: Sequence[int]) -> list[Spread]:
    """How the state, of all operators together, would be shared by some numbers of partitions."""
    from pyspark.sql import functions as F

    found = []
    for number in numbers:
        sums = [0] * number
        for operator in SparkCheckpoint(checkpoint).operators():
            # The same hash by which Spark shuffles rows to partitions.
            partition = F.pmod(F.hash("partition_key.*"), F.lit(number)).alias("partition")
            sized = _measure(spark, checkpoint, operator, batch).select(partition, "bytes")
            for row in sized.groupBy("partition").agg(F.sum("bytes").alias("bytes")).collect():
                sums[row["partition"]] += row["bytes"]
        found.append(Spread(number, max(sums), sum(sums) / number, tuple(sums)))
    return found


def _measure(spark: SparkSession, checkpoint: Storage, operator: int, batch: int) -> DataFrame:
    from pyspark.sql import functions as F

    size = F.octet_length("key_bytes") + F.octet_length("value_bytes")
    return read_store(spark, checkpoint, operator, batch).withColumn("bytes", size.cast("long"))
