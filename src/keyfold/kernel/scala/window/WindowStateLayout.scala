package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.keyfold.state.StatePacking
import org.apache.spark.sql.types._

/**
 * The state of a key with windows that close: when its timer fires, up to which time its windows have been
 * closed, and its open windows.
 */
case class WindowStateLayout(packing: StatePacking) {
  val schema: StructType =
    new StructType().add("due", LongType).add("closed", LongType).add("open", packing.dataType)

  def timer(stored: InternalRow): Long = stored.getLong(0)
  def closed(stored: InternalRow): Long = stored.getLong(1)
  def open(stored: InternalRow): ArrayBuffer[InternalRow] = packing.unpack(stored, 2)
  def encode(timer: Long, closed: Long, open: ArrayBuffer[InternalRow]): InternalRow =
    new GenericInternalRow(Array[Any](timer, closed, packing.pack(open)))
}
