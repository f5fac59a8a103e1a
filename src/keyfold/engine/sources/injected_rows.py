"""Rows that a table reads beside its streams: replayed late rows, and rows that only advance event time.

Replayed rows join where the table's last stage begins, since that is where they were recorded; rows that
advance event time join each stream before its watermark.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from keyfold.engine.internal_columns import CONTROL, PREFIX, REPLAY, TIME
from keyfold.engine.session import kernel
from keyfold.engine.sources import file_names
from keyfold.engine.storage.layout import TableHome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_replays(frame: DataFrame, home: TableHome) -> DataFrame:
    """The frame's rows and the replayed late rows, which are marked by `internal_columns.REPLAY`."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    home.side.directory()
    spark = frame.sparkSession
    own = StructType([f for f in frame.schema.fields if not f.name.startswith(PREFIX)])
    sent = spark.readStream.schema("raw string, time_us bigint, watermark_us bigint").json(home.side.uri())
    sent = file_names.name_files(sent, within=home.storage.uri())
    row = F.from_json("raw", own, json.loads(kernel(spark).lateRowOptions()))
    replayed = sent.select(
        *(row.getField(name).alias(name) for name in own.names),
        F.timestamp_micros("time_us").alias(TIME),
        F.col("watermark_us").alias(REPLAY),
    )
    first_time = frame.withColumn(REPLAY, F.lit(None).cast("bigint"))
    return first_time.unionByName(replayed, allowMissingColumns=True)


def with_control(frame: DataFrame, home: TableHome, stream: str) -> DataFrame:
    """The frame's rows and control rows, which have nothing but a time and `internal_columns.CONTROL`."""
    from pyspark.sql import functions as F

    home.control(stream).directory()
    times = frame.sparkSession.readStream.schema("time_us bigint").json(home.control(stream).uri())
    times = file_names.name_files(times, within=home.storage.uri())
    control = times.select(F.timestamp_micros("time_us").alias(TIME), F.lit(True).alias(CONTROL))
    if CONTROL not in frame.columns:
        frame = frame.withColumn(CONTROL, F.lit(False))
    return frame.unionByName(control, allowMissingColumns=True)
