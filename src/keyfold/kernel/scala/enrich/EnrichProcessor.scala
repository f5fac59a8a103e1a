package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.streaming._

/**
 * Joins the rows of a stream with the values of a table. Subclasses decide which value a row is joined with,
 * and when; this class emits joined rows and buffers stream rows. `output` is computed from `joinedRow`, the
 * columns of `EnrichLayout.joinedRow`.
 */
abstract class EnrichProcessor(
    val layout: EnrichLayout,
    settings: EnrichSettings,
    val output: Seq[Expression],
    joinedRow: Seq[Attribute]) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  /** How stream rows are buffered. */
  protected def buffered: BufferedRowLayout
  /** Emits what the rows of a key lead to. */
  protected def join(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Unit
  /** Emits what is due when a timer of a key has fired. */
  protected def expire(key: InternalRow, times: TimerValues): Unit

  @transient private var buffer: ListState[InternalRow] = _
  @transient private lazy val project = UnsafeProjection.create(output, joinedRow)
  @transient private lazy val keyed = new JoinedRow
  @transient private lazy val columns = new JoinedRowBuffer
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient private lazy val out = new ArrayBuffer[InternalRow](8)

  override final def handleInputRows(
      key: InternalRow,
      rows: Iterator[InternalRow],
      times: TimerValues): Iterator[InternalRow] = {
    out.clear()
    if (key.anyNull) rows.foreach(emitWithoutKey(key, _)) else join(key, rows, times)
    out.iterator
  }

  override final def handleExpiredTimer(
      key: InternalRow,
      times: TimerValues,
      timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    out.clear()
    expire(key, times)
    out.iterator
  }

  /** Emits the join of a row and a value, of which one may be null if unmatched ones are asked for. */
  protected def emit(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int): Unit =
    if ((value != null || settings.unmatchedRows) && (row != null || settings.unmatchedValues))
      emitColumns(key, columns(row, value, time, weight, null))

  private def emitColumns(key: InternalRow, columns: InternalRow): Unit =
    out += project(keyed(key, columns)).copy()

  /** A row without a key has no value. Side outputs of the stream pass through; the table has its own. */
  private def emitWithoutKey(key: InternalRow, shuffled: InternalRow): Unit =
    if (layout.isStreamRow(shuffled)) {
      val (time, sideOutput) = (layout.timeOrNull(shuffled), layout.sideOutput(shuffled))
      if (sideOutput == null) emit(key, layout.row(shuffled), null, time, layout.weight(shuffled))
      else emitColumns(key, columns(null, null, time, 1, sideOutput))
    }

  protected def initBuffer(): Unit = {
    val encoder = InternalRowEncoder.encoder(buffered.schema)
    buffer = getHandle.getListState[InternalRow]("rows", encoder, TTLConfig.NONE)
  }
  protected def anyBuffered: Boolean = buffer.exists()
  protected def bufferedRows(): ArrayBuffer[InternalRow] = {
    val rows = new ArrayBuffer[InternalRow]
    buffer.get().foreach(r => rows += r.copy())
    rows
  }
  protected def appendToBuffer(row: InternalRow): Unit = buffer.appendValue(row)
  protected def replaceBuffer(rows: ArrayBuffer[InternalRow]): Unit =
    if (rows.isEmpty) buffer.clear() else buffer.put(rows.toArray)
}
