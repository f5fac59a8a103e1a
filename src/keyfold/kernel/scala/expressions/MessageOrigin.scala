package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The message of Kafka that a row comes from, as `InternalColumns.Message` has it. */
object MessageOrigin {
  val schema: StructType =
    new StructType().add("topic", StringType).add("partition", IntegerType).add("offset", LongType)

  def of(row: InternalRow, column: Int): InternalRow =
    if (row.isNullAt(column)) null else row.getStruct(column, schema.length)

  def topic(origin: InternalRow): UTF8String = origin.getUTF8String(0)
  def partition(origin: InternalRow): Int = origin.getInt(1)
  def offset(origin: InternalRow): Long = origin.getLong(2)
}
