package org.apache.spark.sql.keyfold.physical

import java.time.Instant
import java.time.temporal.ChronoUnit

import org.apache.spark.sql.streaming.TimerValues

/** Event times and watermarks, in microseconds since the epoch. */
object EventTime {
  /** Before the first row with an event time, and in plans without a watermark: no row is late. */
  val NoWatermark: Long = Long.MinValue

  /** Spark's watermark, which is zero until there is one, in microseconds. */
  def watermark(millis: Long): Long = if (millis <= 0) NoWatermark else millis * 1000

  /** Whether a timer fires in the batch that runs at `clock`. */
  def isDue(timerMillis: Long, clock: Long): Boolean =
    clock != NoWatermark && timerMillis <= Math.floorDiv(clock, 1000L)

  /** The clock of a stateful operator: the batch's timestamp, or the watermark. */
  def clock(times: TimerValues, processingTime: Boolean): Long =
    if (processingTime) times.getCurrentProcessingTimeInMs() * 1000
    else watermark(times.getCurrentWatermarkInMs())

  def text(micros: Long): String = Instant.EPOCH.plus(micros, ChronoUnit.MICROS).toString
}
