package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.keyfold.expressions.{InternalRowEncoder, WholeRow}
import org.apache.spark.sql.keyfold.spark.plans.SparkStatefulOperator
import org.apache.spark.sql.streaming.{StatefulProcessor, TimeMode}
import org.apache.spark.sql.types._

/** Spark's `transformWithState` on rows that stay in Spark's internal form. */
object StatefulOperator {
  /** The processor over the child's rows, grouped by `keys`; what it emits are objects until `Unwrap`. */
  def apply(
      child: LogicalPlan,
      keys: Seq[Attribute],
      processor: StatefulProcessor[_, _, _],
      timeMode: TimeMode): LogicalPlan = {
    val keyEncoder = InternalRowEncoder.encoder(StructType(keys.map(k => StructField(k.name, k.dataType))))
    SparkStatefulOperator(child, keys, WholeRow(), keyEncoder, processor, timeMode)
  }

  /**
   * The same columns without event-time metadata, by which Spark's operators drop late rows without a
   * trace.
   */
  def withoutEventTimeMetadata(child: LogicalPlan): LogicalPlan = Project(child.output.map { a =>
    if (a.metadata == Metadata.empty) a else Alias(a, a.name)(explicitMetadata = Some(Metadata.empty))
  }, child)
}
