package org.apache.spark.sql.keyfold.spark

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.internal.SQLConf

/** An equi-join of two streams as Spark's planner reads it: its sides, keys and remaining condition. */
case class SparkStreamingJoin(
    kind: JoinType,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    otherCondition: Option[Expression],
    left: LogicalPlan,
    right: LogicalPlan) {

  /** Spark's operator over the planned sides. */
  def operator(left: SparkPlan, right: SparkPlan): SparkPlan = new StreamingSymmetricHashJoinExec(
    leftKeys, rightKeys, kind, otherCondition, SparkStreamingJoin.StateFormat, left, right)
}

object SparkStreamingJoin {
  /** The format of the join's state, which Spark pins in the offset log of a query. */
  private val StateFormat = 4

  def unapply(plan: LogicalPlan): Option[SparkStreamingJoin] = plan match {
    case ExtractEquiJoinKeys(kind, leftKeys, rightKeys, other, _, left, right, _) =>
      Some(SparkStreamingJoin(kind, leftKeys, rightKeys, other, left, right))
    case _ => None
  }

  /** The number of state partitions: a query that restarts keeps the number it began with. */
  def partitions(plan: LogicalPlan): Int =
    plan.conf.getConf(SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL).getOrElse(plan.conf.numShufflePartitions)
}
