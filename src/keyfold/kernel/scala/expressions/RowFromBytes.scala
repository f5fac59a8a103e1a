package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._

/** The bytes of a row, as state stores have it, as a struct. */
case class RowFromBytes(child: Expression, schema: StructType) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = schema
  override def nullIntolerant: Boolean = true
  override protected def nullSafeEval(bytes: Any): Any = {
    val (content, row) = (bytes.asInstanceOf[Array[Byte]], new UnsafeRow(schema.length))
    row.pointTo(content, content.length)
    row
  }
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}

/** A struct as the bytes that state stores have of it. */
case class BytesOfRow(child: Expression) extends UnaryExpression with CodegenFallback {
  override def dataType: DataType = BinaryType
  override def nullIntolerant: Boolean = true
  @transient private lazy val encode =
    UnsafeProjection.create(child.dataType.asInstanceOf[StructType].map(_.dataType).toArray)
  override protected def nullSafeEval(row: Any): Any = encode(row.asInstanceOf[InternalRow]).getBytes
  override protected def withNewChildInternal(c: Expression): Expression = copy(child = c)
}
