"""What a table with windows reads beside its streams: late rows sent again, and rows that only move time.

Replayed rows join where the table's last stage begins, since that is where they were written down; rows that
move time join each stream before its watermark.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from keyfold import private
from keyfold.engine.session import kernel
from keyfold.engine.sources import file_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_replays(frame: DataFrame, directory: Path) -> DataFrame:
    """The frame's rows and the late rows sent again, which have `_kf_replay`."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    private.directory(directory)
    spark = frame.sparkSession
    own = StructType([f for f in frame.schema.fields if not f.name.startswith("_kf_")])
    sent = spark.readStream.schema("raw string, time_us bigint, watermark_us bigint").json(str(directory))
    sent = file_names.named(sent, within=directory.parent)
    row = F.from_json("raw", own, json.loads(kernel(spark).lateRowOptions()))
    again = sent.select(
        *(row.getField(name).alias(name) for name in own.names),
        F.timestamp_micros("time_us").alias("_kf_time"),
        F.col("watermark_us").alias("_kf_replay"),
    )
    marked = frame.withColumn("_kf_replay", F.lit(None).cast("bigint"))
    return marked.unionByName(again, allowMissingColumns=True)


def with_control(frame: DataFrame, directory: Path) -> DataFrame:
    """The frame's rows, and rows that have nothing but a time and `_kf_control`."""
    from pyspark.sql import functions as F

    private.directory(directory)
    moves = frame.sparkSession.readStream.schema("time_us bigint").json(str(directory))
    moves = file_names.named(moves, within=directory.parents[1])
    control = moves.select(F.timestamp_micros("time_us").alias("_kf_time"), F.lit(True).alias("_kf_control"))
    if "_kf_control" not in frame.columns:
        frame = frame.withColumn("_kf_control", F.lit(False))
    return frame.unionByName(control, allowMissingColumns=True)
