package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
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
    case ExtractEquiJoinKeys(how, leftKeys, rightKeys, other, _, left, right, _) =>
      val conf = plan.conf
      val partitions =
        conf.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).getOrElse(conf.numShufflePartitions)
      def by(side: LogicalPlan, keys: Seq[Expression]): SparkPlan = planLater(side.transform {
        case d: DivertRejects if d.join == join => d.copy(keys = keys, partitions = partitions)
      })
      new StreamingSymmetricHashJoinExec(
        leftKeys, rightKeys, how, other, 4, by(left, leftKeys), by(right, rightKeys))
    case other => planLater(other)
  }

  def install(spark: AnySession): Unit = synchronized {
    val methods = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].experimental
    if (!methods.extraStrategies.contains(JoinStrategy))
      methods.extraStrategies = methods.extraStrategies :+ JoinStrategy
  }
}
