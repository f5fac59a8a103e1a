package org.apache.spark.sql.keyfold.rows

import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.sql.keyfold.physical.BatchWatermark
import org.apache.spark.sql.streaming.TimerValues

/** Event times and watermarks, in microseconds since the epoch. */
object EventTime {
  /** The watermark of a query that has none yet. */
  val NoWatermark: Long = BatchWatermark.Unknown

  /** Spark's watermark in microseconds. */
  def watermark(millis: Long): Long = BatchWatermark.micros(millis)

  /** Whether a timer fires in the batch that runs at `clock`. */
  def isDue(timerMillis: Long, clock: Long): Boolean =
    clock != NoWatermark && timerMillis <= Math.floorDiv(clock, 1000L)

  /** The clock of a stateful operator: the batch's timestamp, or the watermark. */
  def clock(times: TimerValues, processingTime: Boolean): Long =
    if (processingTime) times.getCurrentProcessingTimeInMs() * 1000
    else watermark(times.getCurrentWatermarkInMs())

  def text(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString
}
