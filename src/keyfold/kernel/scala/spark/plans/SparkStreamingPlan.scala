package org.apache.spark.sql.keyfold.spark.plans

import java.util.UUID

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.EnsureRequirements
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
import org.apache.spark.sql.execution.streaming.runtime.{IncrementalExecution, WatermarkPropagator}
import org.apache.spark.sql.streaming.OutputMode

/** Spark's planning of a batch of a streaming query, without a query. */
object SparkStreamingPlan {
  /** The plan of a first batch, with exchanges and sorts; nothing is written or run. */
  def apply(session: SparkSession, plan: LogicalPlan): SparkPlan = {
    val batch = new IncrementalExecution(
      sparkSession = SparkDatasets.session(session),
      logicalPlan = plan,
      outputMode = OutputMode.Update(),
      checkpointLocation = "none",
      queryId = UUID.randomUUID(),
      runId = UUID.randomUUID(),
      currentBatchId = 0L,
      prevOffsetSeqMetadata = None,
      offsetSeqMetadata = OffsetSeqMetadata(),
      watermarkPropagator = WatermarkPropagator.noop(),
      isFirstBatch = true)
    EnsureRequirements()(batch.sparkPlan.transformUp(batch.StateOpIdRule.rule))
  }
}
