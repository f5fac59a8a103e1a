package org.apache.spark.sql.keyfold.physical

/**
 * The watermark, in microseconds, that a step of the plan judges its rows by. Spark gives a batch's
 * watermark to stateful operators alone; `WatermarkPropagationExec` is the one that assigns it to the steps
 * below them.
 *
 * A step reads it on the driver, when its RDD is built, and sends the value to its tasks. Spark plans every
 * batch anew, so an object serves one batch; copies that Spark makes of a physical node share the object.
 */
final class BatchWatermark {
  private var micros = BatchWatermark.Unknown

  def value: Long = micros

  private[physical] def assign(micros: Long): Unit = this.micros = micros
}

object BatchWatermark {
  /** Before the first row with an event time, and in plans without a watermark: no row is late. */
  val Unknown: Long = Long.MinValue

  /** A watermark of Spark's, which is zero until there is one. */
  def micros(ms: Long): Long = if (ms <= 0) Unknown else ms * 1000
}
