package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, WatermarkSupport}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.keyfold.pattern.PatternProcessor
import org.apache.spark.sql.keyfold.rows.EventTime
import org.apache.spark.sql.keyfold.state.KeyedProcessor
import org.apache.spark.sql.streaming.StatefulProcessor

/** The top of a table's plan. Spark tells the batch's watermark to stateful operators alone; what is late must be known before rows reach them. */
case class WatermarkPropagation(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(c: LogicalPlan): WatermarkPropagation = copy(child = c)
}

case class WatermarkPropagationExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override protected def doExecute(): RDD[InternalRow] = { tell(child, EventTime.NoWatermark); child.execute() }

  private def tell(plan: SparkPlan, watermark: Long): Unit = plan match {
    case through: PartitionStepExec => through.watermark = watermark; tell(through.child, watermark)
    case state: WatermarkSupport => below(state, state.eventTimeWatermarkForLateEvents, state.eventTimeWatermarkForEviction)
    case join: StreamingSymmetricHashJoinExec => below(join, join.eventTimeWatermarkForLateEvents, join.eventTimeWatermarkForEviction)
    case other => other.children.foreach(tell(_, watermark))
  }
  private def below(state: SparkPlan, forLate: Option[Long], forEviction: Option[Long]): Unit = {
    // What comes out of a stateful operator may be older than the watermark that it has just waited for.
    def derived(from: SparkPlan) = from.exists { case _: StatefulOperator => true; case _ => false }
    state match {
      case t: TransformWithStateExec => t.statefulProcessor.asInstanceOf[StatefulProcessor[_, _, _]] match {
        case p: PatternProcessor => p.version = t.stateInfo.fold(0L)(_.storeVersion)
        case f: KeyedProcessor => f.lagging = forLate.filter(_ => t.children.exists(derived))
        case _ =>
      }
      case _ =>
    }
    state.children.foreach(from => tell(from, (if (derived(from)) forLate else forEviction).fold(EventTime.NoWatermark)(EventTime.watermark)))
  }
  override protected def withNewChildInternal(c: SparkPlan): WatermarkPropagationExec = copy(child = c)
}
