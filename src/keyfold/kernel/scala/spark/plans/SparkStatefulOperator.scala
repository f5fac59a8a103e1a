package org.apache.spark.sql.keyfold.spark.plans

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, TransformWithState}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.{StatefulOperator, WatermarkSupport}
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}
import org.apache.spark.sql.types.ObjectType

/**
 * A stateful operator of a physical plan, with what Spark has told it about the batch. Spark keeps two
 * watermarks, in milliseconds: rows older than `lateMs` are late, state older than `evictionMs` is complete.
 * `processor` and `stateVersion` belong to `transformWithState` on the JVM and are absent elsewhere.
 */
case class SparkStatefulOperator(
    plan: SparkPlan,
    lateMs: Option[Long],
    evictionMs: Option[Long],
    processor: Option[AnyRef] = None,
    stateVersion: Option[Long] = None)

object SparkStatefulOperator {
  /** A `transformWithState` that passes rows to its processor, and emits them, as objects. */
  def apply(
      child: LogicalPlan,
      keys: Seq[Attribute],
      row: Expression,
      keyEncoder: ExpressionEncoder[InternalRow],
      processor: StatefulProcessor[_, _, _],
      mode: TimeMode): LogicalPlan =
    new TransformWithState(
      keyDeserializer = row,
      valueDeserializer = row,
      groupingAttributes = keys,
      dataAttributes = child.output,
      statefulProcessor = processor.asInstanceOf[StatefulProcessor[Any, Any, Any]],
      timeMode = mode,
      outputMode = OutputMode.Update(),
      keyEncoder = keyEncoder.asInstanceOf[ExpressionEncoder[Any]],
      outputObjAttr = AttributeReference("obj", ObjectType(classOf[InternalRow]), nullable = false)(),
      child = child,
      hasInitialState = false,
      initialStateGroupingAttrs = keys,
      initialStateDataAttrs = child.output,
      initialStateDeserializer = row,
      initialState = LocalRelation(DataTypeUtils.toAttributes(keyEncoder.schema)))

  def unapply(plan: SparkPlan): Option[SparkStatefulOperator] = plan match {
    case o: TransformWithStateExec => Some(SparkStatefulOperator(
      o, o.eventTimeWatermarkForLateEvents, o.eventTimeWatermarkForEviction,
      Some(o.statefulProcessor), o.stateInfo.map(_.storeVersion)))
    case o: WatermarkSupport =>
      Some(SparkStatefulOperator(plan, o.eventTimeWatermarkForLateEvents, o.eventTimeWatermarkForEviction))
    case o: StreamingSymmetricHashJoinExec =>
      Some(SparkStatefulOperator(o, o.eventTimeWatermarkForLateEvents, o.eventTimeWatermarkForEviction))
    case _ => None
  }

  /** Whether rows of this plan have passed a stateful operator. */
  def existsIn(plan: SparkPlan): Boolean = plan.exists(_.isInstanceOf[StatefulOperator])
}
