package org.apache.spark.sql.keyfold.realtime

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Where a change has what its message consists of. */
case class MessageLayout(schema: StructType) {
  private def at(name: String) = schema.fieldIndex(name)
  private val (operationAt, sideAt) = (at(InternalColumns.Op), at(InternalColumns.SideOutput))
  private val (keyAt, valueAt) = (at(InternalColumns.MessageKey), at(InternalColumns.MessageValue))

  def isChange(row: InternalRow): Boolean = row.isNullAt(sideAt)
  def operation(row: InternalRow): UTF8String = row.getUTF8String(operationAt)
  def key(row: InternalRow): Array[Byte] = row.getBinary(keyAt)
  def value(row: InternalRow): Array[Byte] = if (row.isNullAt(valueAt)) null else row.getBinary(valueAt)
}

object MessageLayout {
  /** A message as Spark's writer of messages takes it. */
  val schema: StructType = {
    val header = new StructType().add("key", StringType).add("value", BinaryType)
    new StructType().add("key", BinaryType).add("value", BinaryType).add("headers", ArrayType(header))
  }
}

/** The messages of one task's changes; `headers` are those that all of a batch have. */
class MessageRows(layout: MessageLayout, headers: Map[String, String]) {
  private val byOperation = mutable.HashMap.empty[UTF8String, GenericArrayData]

  def isChange(row: InternalRow): Boolean = layout.isChange(row)

  def apply(row: InternalRow): InternalRow =
    new GenericInternalRow(Array[Any](layout.key(row), layout.value(row), headersOf(layout.operation(row))))

  private def headersOf(operation: UTF8String): GenericArrayData = byOperation.getOrElse(operation, {
    val all = ("_op" -> operation.toString) +: headers.toSeq
    val made = new GenericArrayData(all.map { case (name, value) =>
      new GenericInternalRow(Array[Any](UTF8String.fromString(name), value.getBytes("UTF-8")))
    }.toArray[Any])
    byOperation(operation.copy()) = made
    made
  })
}
