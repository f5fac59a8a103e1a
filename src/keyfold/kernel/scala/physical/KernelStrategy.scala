package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets

/** Plans the kernel's own nodes. */
object KernelStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PartitionStepNode(step, output, child) =>
      PartitionStepExec(step, output, planLater(child))(new BatchWatermark) :: Nil
    case MergePartials(fold, keys, group, child) =>
      MergePartialsExec(fold, keys, group, planLater(child)) :: Nil
    case Unwrap(output, child) => UnwrapExec(output, planLater(child)) :: Nil
    case SortByKeyAndTime(keys, by, child) => SortByKeyAndTimeExec(keys, by, planLater(child)) :: Nil
    case w: PartitionedWatermark =>
      new PartitionedWatermarkExec(w.nodeId, w.eventTime, w.delay, planLater(w.child), w.clock) :: Nil
    case WatermarkPropagation(child) => WatermarkPropagationExec(planLater(child)) :: Nil
    case _ => Nil
  }

  def install(session: SparkSession): Unit = SparkDatasets.install(session, this)
}
