package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.{SparkSession => AnySession}

object KernelStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PartitionStepNode(work, output, child) => PartitionStepExec(work, output, planLater(child)) :: Nil
    case MergePartials(fold, keys, group, child) => MergePartialsExec(fold, keys, group, planLater(child)) :: Nil
    case Unwrap(output, child) => UnwrapExec(output, planLater(child)) :: Nil
    case SortByKeyAndTime(keys, by, child) => SortByKeyAndTimeExec(keys, by, planLater(child)) :: Nil
    case WatermarkPropagation(child) => WatermarkPropagationExec(planLater(child)) :: Nil
    case _ => Nil
  }

  /** Once per session; queries copy the session and keep it. */
  def install(spark: AnySession): Unit = synchronized {
    val methods = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].experimental
    if (!methods.extraStrategies.contains(KernelStrategy)) methods.extraStrategies = methods.extraStrategies :+ KernelStrategy
  }
}
