package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project, TransformWithState}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.keyfold.expressions.{InternalRowEncoder, WholeRow}
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}
import org.apache.spark.sql.types._

/** Spark's `transformWithState` on internal rows: the one place that builds the operator. */
object StatefulOperator {
  /** The processor over the child's rows, grouped by `keys`; what it emits are objects until `Unwrap`. */
  def apply(
      child: LogicalPlan, keys: Seq[Attribute], processor: StatefulProcessor[_, _, _], timeMode: TimeMode): LogicalPlan = {
    val keySchema = StructType(keys.map(k => StructField(k.name, k.dataType)))
    new TransformWithState(
      keyDeserializer = WholeRow(),
      valueDeserializer = WholeRow(),
      groupingAttributes = keys,
      dataAttributes = child.output,
      statefulProcessor = processor.asInstanceOf[StatefulProcessor[Any, Any, Any]],
      timeMode = timeMode,
      outputMode = OutputMode.Update(),
      keyEncoder = InternalRowEncoder.encoder(keySchema).asInstanceOf[ExpressionEncoder[Any]],
      outputObjAttr = AttributeReference("obj", ObjectType(classOf[InternalRow]), nullable = false)(),
      child = child,
      hasInitialState = false,
      initialStateGroupingAttrs = keys,
      initialStateDataAttrs = child.output,
      initialStateDeserializer = WholeRow(),
      initialState = LocalRelation(DataTypeUtils.toAttributes(keySchema)))
  }

  /** The same columns without event-time metadata, by which Spark's operators drop late rows without a trace. */
  def withoutEventTimeMetadata(child: LogicalPlan): LogicalPlan = Project(child.output.map { a =>
    if (a.metadata == Metadata.empty) a else Alias(a, a.name)(explicitMetadata = Some(Metadata.empty))
  }, child)
}
