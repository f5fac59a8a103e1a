package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * True if a key is valid: not null and, if text, valid UTF-8. Otherwise throws the reason, for which the row
 * is rejected. For operators that are not the kernel's.
 */
case class ValidKey(child: Expression, name: String) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def eval(row: InternalRow): Any = child.eval(row) match {
    case null => throw new IllegalArgumentException(ValidKey.missing(name))
    case text: UTF8String if !text.isValid => throw new IllegalArgumentException(ValidKey.invalidText(name))
    case _ => true
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}

object ValidKey {
  def missing(name: String): String = s"key $name is null"
  def invalidText(name: String): String = s"key $name is not valid UTF-8"
}
