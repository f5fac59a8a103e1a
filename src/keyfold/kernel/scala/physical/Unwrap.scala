package org.apache.spark.sql.keyfold.physical

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, ObjectConsumer}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types.ObjectType

/** The rows that a stateful operator emits as objects, as rows again. */
case class Unwrap(output: Seq[Attribute], child: LogicalPlan) extends ObjectConsumer {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(c: LogicalPlan): Unwrap = copy(child = c)
}

case class UnwrapExec(output: Seq[Attribute], child: SparkPlan) extends UnaryExecNode {
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def doExecute(): RDD[InternalRow] = child.execute().mapPartitionsInternal { rows =>
    val wrapped = ObjectType(classOf[InternalRow])
    rows.map(_.get(0, wrapped).asInstanceOf[InternalRow])
  }
  override protected def withNewChildInternal(c: SparkPlan): UnwrapExec = copy(child = c)
}
