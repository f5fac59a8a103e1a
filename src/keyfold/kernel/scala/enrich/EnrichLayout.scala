package org.apache.spark.sql.keyfold.enrich

import java.nio.ByteBuffer
import java.util.Comparator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, RowId}
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.state.IdentifiedRows
import org.apache.spark.sql.types._

/**
 * How a stream is enriched. `unmatchedRows`: rows without a value are emitted; `unmatchedValues`: values
 * without a row are. `maxWait`: how long a row is buffered for a value, in microseconds. `follow`: rows are
 * buffered, for `keep` or for good; when their value changes, they are retracted and emitted again.
 */
case class EnrichSettings(
    unmatchedRows: Boolean,
    unmatchedValues: Boolean,
    maxWait: Option[Long],
    follow: Boolean,
    keep: Option[Long])

/**
 * What comes through the shuffle to an enrichment, by the table's key: the key, a stream row or a table
 * value, which of the two it is, the row's event time, the order of changes, the row's weight (-1 for a
 * retraction), and the side output. Among the columns of a row of a retracting stream is its id.
 */
case class EnrichLayout(keys: Int, row: StructType, value: StructType) extends IdentifiedRows {
  val rowIndex: Int = keys
  val valueIndex: Int = keys + 1
  val sideIndex: Int = keys + 2
  val timeIndex: Int = keys + 3
  val orderIndex: Int = keys + 4
  val weightIndex: Int = keys + 5
  val sideOutputIndex: Int = keys + 6

  def row(shuffled: InternalRow): InternalRow = shuffled.getStruct(rowIndex, row.length)
  def value(shuffled: InternalRow): InternalRow = shuffled.getStruct(valueIndex, value.length)
  def isStreamRow(shuffled: InternalRow): Boolean = shuffled.getInt(sideIndex) == EnrichLayout.StreamRow
  def isValue(shuffled: InternalRow): Boolean = shuffled.getInt(sideIndex) == EnrichLayout.TableValue
  def hasTime(shuffled: InternalRow): Boolean = !shuffled.isNullAt(timeIndex)
  def time(shuffled: InternalRow): Long = shuffled.getLong(timeIndex)
  def timeOrNull(shuffled: InternalRow): Any = if (hasTime(shuffled)) time(shuffled) else null
  def order(shuffled: InternalRow): Long = shuffled.getLong(orderIndex)
  override def weight(shuffled: InternalRow): Int = shuffled.getInt(weightIndex)
  /** Rows of the table that have an event time, in the order in which they are folded. */
  def byTimeAndArrival: Comparator[InternalRow] = OrderStamp.order(timeIndex, orderIndex)
  /** Null if the row has none. */
  def sideOutput(shuffled: InternalRow): InternalRow = SideOutput.of(shuffled, sideOutputIndex)

  /** Where a stream row has its id, -1 if the stream's rows have none. */
  val idIndex: Int = row.fieldNames.indexOf(InternalColumns.RowId)
  private def identity(streamRow: InternalRow): InternalRow =
    if (idIndex < 0) null else streamRow.getStruct(idIndex, RowId.schema.length)
  /** The id of a stream row; null if it has none. */
  def rowId(streamRow: InternalRow): ByteBuffer = {
    val found = identity(streamRow)
    if (found == null) null else ByteBuffer.wrap(found.getBinary(0))
  }
  override def hasId(shuffled: InternalRow): Boolean = identity(row(shuffled)) != null
  override def id(shuffled: InternalRow): ByteBuffer = rowId(row(shuffled))
  override def change(shuffled: InternalRow): Long = identity(row(shuffled)).getLong(1)

  /** The columns of the joined row, of which the output is computed; `value` is its type there. */
  def joinedRow(input: Seq[Attribute], value: Attribute): Seq[Attribute] = {
    val Seq(row, time, weight, sideOutput) = Seq(rowIndex, timeIndex, weightIndex, sideOutputIndex).map(input)
    input.take(keys) ++ Seq(row, value, time, weight, sideOutput)
  }
}

object EnrichLayout {
  /** The columns behind the key. */
  val Columns: Seq[String] = Seq("row", "value", "side", "time", "order", "weight", "side_output")
  /** The values of `side`. */
  val StreamRow = 0
  val TableValue = 1
  val DeletedValue = 2
}

/** The joined row behind its key: stream row, table value, event time, weight and side output. Reused. */
class JoinedRowBuffer {
  private val columns = new GenericInternalRow(5)

  def apply(
      row: InternalRow,
      value: InternalRow,
      time: Any,
      weight: Int,
      sideOutput: InternalRow): InternalRow = {
    columns.update(0, row)
    columns.update(1, value)
    columns.update(2, time)
    columns.update(3, weight)
    columns.update(4, sideOutput)
    columns
  }
}

/** A buffered stream row: the row, its event time if it has one and, with a deadline, when it is due. */
case class BufferedRowLayout(row: StructType, hasDeadline: Boolean) {
  val schema: StructType = {
    val rowAndTime = new StructType().add("row", row).add("time", LongType)
    if (hasDeadline) rowAndTime.add("due", LongType) else rowAndTime
  }

  def apply(row: InternalRow, time: Any): InternalRow = new GenericInternalRow(Array[Any](row, time))
  def apply(row: InternalRow, time: Any, due: Long): InternalRow =
    new GenericInternalRow(Array[Any](row, time, due))

  def row(buffered: InternalRow): InternalRow = buffered.getStruct(0, row.length)
  def time(buffered: InternalRow): Long = buffered.getLong(1)
  def timeOrNull(buffered: InternalRow): Any = if (buffered.isNullAt(1)) null else time(buffered)
  def due(buffered: InternalRow): Long = buffered.getLong(2)
}
