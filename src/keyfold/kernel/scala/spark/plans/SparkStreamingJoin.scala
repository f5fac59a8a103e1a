package org.apache.spark.sql.keyfold.spark.plans

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
    leftKeys, rightKeys, kind, otherCondition, SparkStreamingJoin.stateFormat(left.conf), left, right)
}

object SparkStreamingJoin {
  /**
   * The format of the join's state: the query's setting, which Spark writes into the offset log, and where
   * its reader of state looks for it.
   */
  private def stateFormat(conf: SQLConf): Int = conf.getConf(SQLConf.STREAMING_JOIN_STATE_FORMAT_VERSION)

  def unapply(plan: LogicalPlan): Option[SparkStreamingJoin] = plan match {
    case ExtractEquiJoinKeys(kind, leftKeys, rightKeys, other, _, left, right, _) =>
      Some(SparkStreamingJoin(kind, leftKeys, rightKeys, other, left, right))
    case _ => None
  }
}
