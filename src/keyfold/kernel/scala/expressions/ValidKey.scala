package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The same as a condition, where rows go on as they are: true if a key can be one; if not, the row is
 * rejected with the reason.
 */
case class ValidKey(child: Expression, name: String) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row) match {
    case null => throw new IllegalArgumentException(ValidKey.missing(name))
    case text: UTF8String if !text.isValid => throw new IllegalArgumentException(ValidKey.garbled(name))
    case _ => true
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}

object ValidKey {
  def missing(name: String): String = s"key $name is null"
  def garbled(name: String): String = s"key $name is no UTF-8 text"
}
