package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.{SparkSession => AnySession}

object JoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case RestoreRejects(join, columns, test, output, child) => RestoreRejectsExec(join, columns, test, output, meeting(join, child)) :: Nil
    case DivertRejects(join, keys, partitions, child) => DivertRejectsExec(join, keys, partitions, planLater(child)) :: Nil
    case _ => Nil
  }

  /** As Spark's own strategy; what it does not do is to tell the sides by which keys they will be joined, which the optimizer may have rewritten. */
  private def meeting(join: Long, plan: LogicalPlan): SparkPlan = plan match {
    case ExtractEquiJoinKeys(how, leftKeys, rightKeys, other, _, left, right, _) =>
      val conf = plan.conf
      val partitions = conf.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).getOrElse(conf.numShufflePartitions)
      def by(side: LogicalPlan, keys: Seq[Expression]): SparkPlan = planLater(side.transform { case s: DivertRejects if s.join == join => s.copy(keys = keys, partitions = partitions) })
      new StreamingSymmetricHashJoinExec(leftKeys, rightKeys, how, other, 4, by(left, leftKeys), by(right, rightKeys))
    case other => planLater(other)
  }

  def install(spark: AnySession): Unit = synchronized {
    val methods = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].experimental
    if (!methods.extraStrategies.contains(JoinStrategy)) methods.extraStrategies = methods.extraStrategies :+ JoinStrategy
  }
}
