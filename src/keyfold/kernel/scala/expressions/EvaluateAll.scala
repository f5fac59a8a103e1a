package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/** Evaluates its children for what they may throw; always true. */
case class EvaluateAll(children: Seq[Expression]) extends Expression with CodegenFallback {
  override def nullable: Boolean = false
  override def dataType: DataType = BooleanType
  override def eval(row: InternalRow): Any = { children.foreach(_.eval(row)); true }
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(children = c)
}
