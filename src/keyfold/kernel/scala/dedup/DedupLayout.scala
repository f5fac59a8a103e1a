package org.apache.spark.sql.keyfold.dedup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._

/**
 * What comes through the shuffle to a dedup step: the timer bucket of the key, the key, the row's columns,
 * the order stamp (event time and arrival), and the side output.
 */
case class DedupLayout(input: Seq[Attribute], keys: Int, columns: Int, timed: Boolean) {
  private val firstColumn = 1 + keys
  val stamp: Int = firstColumn + columns
  val sideOutput: Int = stamp + 1

  def key: Seq[Attribute] = input.slice(1, firstColumn)
  def keySchema: StructType = StructType(key.map(a => StructField(a.name, a.dataType)))
  def row: Seq[Attribute] = input.slice(firstColumn, stamp)
  /** In microseconds. */
  def eventTime(shuffled: InternalRow): Long = OrderStamp.micros(shuffled, stamp)

  /** The row as it continues in the stream: its columns, its event time if it has one, and no side output. */
  def keptRow: Seq[Expression] = row ++ time :+ SideOutput.none
  /** A side output in place of the row. */
  def sideOutputRow(sideOutput: Expression): Seq[Expression] =
    row.map(a => Literal(null, a.dataType)) ++ time :+ sideOutput
  def sideOutputRow: Seq[Expression] = sideOutputRow(input(sideOutput))
  private def time: Seq[Expression] = if (timed) Seq(OrderStamp.time(input(stamp))) else Nil
}

/** The state of a key: the times of the rows that were kept, in microseconds. */
object KeptTimesLayout {
  val schema: StructType = new StructType().add("times", ArrayType(LongType, containsNull = false))

  def decode(stored: InternalRow): Array[Long] =
    if (stored == null) Array.empty[Long] else stored.getArray(0).toLongArray()
  def encode(times: Array[Long]): InternalRow =
    new GenericInternalRow(Array[Any](new GenericArrayData(times)))
}
