package org.apache.spark.sql.keyfold.spark.plans

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * The node of a plan that Spark takes a watermark from when a batch is done, told how far event time has come
 * instead of deriving it from all rows alike.
 */
abstract class SparkWatermarkExec(
    nodeId: UUID, eventTime: Attribute, delay: CalendarInterval, child: SparkPlan)
    extends EventTimeWatermarkExec(nodeId, eventTime, delay, child) {
  /** On the driver, before the batch ends. */
  protected def reach(ms: Long): Unit = {
    eventTimeStats.reset()
    eventTimeStats.add(ms)
  }
}
