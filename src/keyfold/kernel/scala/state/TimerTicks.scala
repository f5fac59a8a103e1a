package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.types.{LongType, StructType}

/** Event times, in microseconds, as the milliseconds of Spark's timers. */
object TimerTicks {
  /** The time of a timer that never fires. */
  val Never: Long = Long.MaxValue

  /** The key of state that is kept by tick. */
  val schema: StructType = new StructType().add("tick", LongType)

  /** The first millisecond at or after a time. */
  def of(micros: Long): Long = if (micros == Never) Never else -Math.floorDiv(-micros, 1000L)

  /** When the timer for a time fires: Spark's first watermark is zero, and nothing is due before it. */
  def firing(micros: Long): Long = math.max(1L, of(micros))
}
