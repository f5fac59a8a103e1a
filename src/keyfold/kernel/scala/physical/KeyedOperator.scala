package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, TransformWithState}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.keyfold.expressions.{InternalRowEncoder, WholeRow}
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessor, TimeMode}
import org.apache.spark.sql.types.{ObjectType, StructField, StructType}

/** A stateful operator over rows by their key, which stay in Spark's internal form throughout. */
object KeyedOperator {
  /** `Unwrap` makes rows of the objects that come out of it. */
  def apply(
      child: LogicalPlan, keys: Seq[Attribute], processor: StatefulProcessor[_, _, _], mode: TimeMode): LogicalPlan = {
    val keySchema = StructType(keys.map(k => StructField(k.name, k.dataType)))
    new TransformWithState(
      WholeRow(), WholeRow(), keys, child.output, processor.asInstanceOf[StatefulProcessor[Any, Any, Any]], mode,
      OutputMode.Update(), InternalRowEncoder.encoder(keySchema).asInstanceOf[ExpressionEncoder[Any]],
      AttributeReference("obj", ObjectType(classOf[InternalRow]), nullable = false)(), child, false, keys,
      child.output, WholeRow(), LocalRelation(DataTypeUtils.toAttributes(keySchema)))
  }
}
