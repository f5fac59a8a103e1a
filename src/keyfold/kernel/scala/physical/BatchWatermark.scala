package org.apache.spark.sql.keyfold.physical

/**
 * The watermark, as Spark has it, that a step of the plan judges its rows by. Spark gives a batch's
 * watermark to stateful operators alone; `WatermarkPropagationExec` is the one that assigns it to the steps
 * below them.
 *
 * A step reads it on the driver, when its RDD is built, and sends the value to its tasks. Spark plans every
 * batch again, so an object serves one batch; copies that Spark makes of a physical node share the object.
 */
final class BatchWatermark {
  /** None in plans without a watermark. */
  private var millis = Option.empty[Long]

  def ms: Option[Long] = millis

  private[physical] def assign(ms: Option[Long]): Unit = millis = ms
}
