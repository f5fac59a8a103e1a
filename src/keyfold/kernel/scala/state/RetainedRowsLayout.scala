package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._

/**
 * The state of a key whose rows are kept: when it was last seen, in milliseconds, for TTL; and the rows, or
 * what `name` says is kept in their place.
 */
case class RetainedRowsLayout(row: StructType, name: String = "rows") {
  private val packing = StructPacking(row)
  val schema: StructType = new StructType().add("seen", LongType).add(name, packing.dataType)

  def seenMs(stored: InternalRow): Long = stored.getLong(0)
  def rows(stored: InternalRow): ArrayBuffer[InternalRow] = packing.unpack(stored, 1)
  def encode(seenMs: Long, rows: ArrayBuffer[InternalRow]): InternalRow =
    new GenericInternalRow(Array[Any](seenMs, packing.pack(rows)))
}
