package org.apache.spark.sql.keyfold.physical

/**
 * What a stateful processor may need to know about its batch that Spark does not pass to it. Both are the
 * same when a batch runs again.
 *
 * `stateVersion`: the version of the state that the batch starts from. `upstreamWatermarkMs`: set where
 * rows have passed another stateful operator; that operator emits rows down to this watermark, which is
 * behind the one that Spark tells the processor.
 */
case class BatchFacts(stateVersion: Long, upstreamWatermarkMs: Option[Long])

/**
 * A stateful processor that reads the facts of its batch. They are set on the driver when the batch's plan is
 * executed; Spark then serializes the processor, with them, into the batch's tasks.
 */
trait BatchAware {
  private var facts = BatchFacts(0L, None)

  protected final def batch: BatchFacts = facts

  private[physical] final def beginBatch(facts: BatchFacts): Unit = this.facts = facts
}
