package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types._

/**
 * The id of a table's row where other tables read its changelog: the number of the reading, since a table may
 * read another one several times, and the key. Keys are equal if their bytes are.
 */
case class RowId(reading: Int, children: Seq[Expression]) extends Expression with CodegenFallback {
  override def dataType: DataType = BinaryType
  override def nullable: Boolean = false
  @transient private lazy val project = UnsafeProjection.create(Literal(reading) +: children)
  override def eval(row: InternalRow): Any = project(row).getBytes
  override protected def withNewChildrenInternal(c: IndexedSeq[Expression]): Expression = copy(children = c)
}

object RowId {
  /** The id, and the order of its changes: by batch of the upstream table, then by position in the batch. */
  val schema: StructType = new StructType().add("row", BinaryType).add("change", LongType)
  def id(column: Expression): Expression = GetStructField(column, 0)
  def change(column: Expression): Expression = GetStructField(column, 1)
}
