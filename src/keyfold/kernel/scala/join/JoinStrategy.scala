package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.keyfold.spark.plans.{SparkDatasets, SparkStreamingJoin}
import org.apache.spark.sql.keyfold.spark.state_store.SparkStatePartitions
import org.apache.spark.sql.{SparkSession => AnySession}

/** Plans a join between `DivertRejects` on both sides and `RestoreRejects` above it. */
object JoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case RestoreRejects(join, columns, test, output, child) =>
      RestoreRejectsExec(join, columns, test, output, planJoin(join, child)) :: Nil
    case DivertRejects(join, keys, partitions, child) =>
      DivertRejectsExec(join, keys, partitions, planLater(child)) :: Nil
    case _ => Nil
  }

  /**
   * As Spark's own strategy. In addition, both sides learn the keys that they are joined by, which the
   * optimizer may have rewritten.
   */
  private def planJoin(join: Long, plan: LogicalPlan): SparkPlan = plan match {
    case SparkStreamingJoin(found) =>
      val partitions = SparkStatePartitions.number(plan.conf)
      def by(side: LogicalPlan, keys: Seq[Expression]): SparkPlan = planLater(side.transform {
        case d: DivertRejects if d.join == join => d.copy(keys = keys, partitions = partitions)
      })
      found.operator(by(found.left, found.leftKeys), by(found.right, found.rightKeys))
    case other => planLater(other)
  }

  def install(spark: AnySession): Unit = SparkDatasets.install(spark, this)
}
