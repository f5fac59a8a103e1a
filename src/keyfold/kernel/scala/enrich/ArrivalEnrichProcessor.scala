package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.state.{RowChanges, TimerTicks}
import org.apache.spark.sql.streaming._

/**
 * Joins stream rows with the table's value at the time of their arrival. The state is the newest value of the
 * key, and the rows that wait for a value or follow it.
 */
class ArrivalEnrichProcessor(
    layout: EnrichLayout,
    settings: EnrichSettings,
    output: Seq[Expression],
    joinedRow: Seq[Attribute]) extends EnrichProcessor(layout, settings, output, joinedRow) {
  @transient private var valueState: ValueState[InternalRow] = _
  @transient private var processingTime: Boolean = _
  override protected val buffered: BufferedRowLayout = BufferedRowLayout(layout.row, hasDeadline = true)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    val encoder = InternalRowEncoder.encoder(layout.value)
    valueState = getHandle.getValueState[InternalRow]("state", encoder, TTLConfig.NONE)
    if (settings.follow || settings.maxWait.isDefined) initBuffer()
    processingTime = time == TimeMode.ProcessingTime()
  }

  override protected def join(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Unit = {
    val stored = valueState.get()
    val old = if (stored == null) null else stored.copy()
    val streamRows = new ArrayBuffer[InternalRow](2)
    val change = newestChange(rows, streamRows)
    val value = if (change == null) old else if (layout.isValue(change)) layout.value(change) else null
    if (change != null && value != old) {
      if (value == null) valueState.clear() else valueState.update(value)
    }
    if (settings.follow) follow(key, streamRows, old, value, times)
    else if (settings.maxWait.isDefined) joinOrWait(key, streamRows, value, times)
    else streamRows.foreach(emitRow(key, _, value, 1))
  }

  /** The last change of the table's value in the batch, or null; stream rows are added to `streamRows`. */
  private def newestChange(rows: Iterator[InternalRow], streamRows: ArrayBuffer[InternalRow]): InternalRow = {
    var newest: InternalRow = null
    while (rows.hasNext) {
      val r = rows.next()
      if (layout.isStreamRow(r)) streamRows += r.copy()
      else if (newest == null || layout.order(newest) < layout.order(r)) newest = r.copy()
    }
    newest
  }

  private def emitRow(key: InternalRow, shuffled: InternalRow, value: InternalRow, weight: Int): Unit =
    emit(key, layout.row(shuffled), value, layout.timeOrNull(shuffled), weight)
  private def emitBuffered(key: InternalRow, row: InternalRow, value: InternalRow, weight: Int): Unit =
    emit(key, buffered.row(row), value, buffered.timeOrNull(row), weight)

  /** Rows without a value are buffered, each until its own deadline. */
  private def joinOrWait(
      key: InternalRow,
      streamRows: ArrayBuffer[InternalRow],
      value: InternalRow,
      times: TimerValues): Unit =
    if (value != null) {
      bufferedRows().foreach(emitBuffered(key, _, value, 1))
      replaceBuffer(ArrayBuffer.empty)
      streamRows.foreach(emitRow(key, _, value, 1))
    } else {
      val clock = EventTime.clock(times, processingTime)
      streamRows.foreach { r =>
        val due = deadline(r, clock, settings.maxWait.get)
        if (due <= clock) emitRow(key, r, null, 1)
        else { appendToBuffer(toBuffered(r, due)); registerTimer(due) }
      }
    }

  private def toBuffered(shuffled: InternalRow, due: Long): InternalRow =
    buffered(layout.row(shuffled), layout.timeOrNull(shuffled), due)
  private def registerTimer(due: Long): Unit = getHandle.registerTimer(TimerTicks.firing(due))

  /** By event time where the row has one; as long as there is no clock, nothing is due. */
  private def deadline(shuffled: InternalRow, clock: Long, duration: Long): Long = {
    val from = if (!processingTime && layout.hasTime(shuffled)) layout.time(shuffled)
      else if (clock == EventTime.NoWatermark) 0L else clock
    from + duration
  }

  /** Joined rows follow their value: when it changes, they are retracted and emitted again. */
  private def follow(
      key: InternalRow,
      streamRows: ArrayBuffer[InternalRow],
      old: InternalRow,
      value: InternalRow,
      times: TimerValues): Unit = {
    val changes = new RowChanges(streamRows.filter(layout.hasId), layout)
    val (arrived, retracted) =
      streamRows.filter(r => !layout.hasId(r) || changes.isLeft(r)).partition(layout.weight(_) > 0)
    val clock = EventTime.clock(times, processingTime)
    val changed = old != value
    val valueWasAlone = settings.unmatchedValues && !anyBuffered
    val rewrites = changes.retracts || retracted.nonEmpty
    val known = if (changed || rewrites) bufferedRows() else new ArrayBuffer[InternalRow](0)
    val (touched, untouched) = known.partition(r => changes.touches(layout.rowId(buffered.row(r))))
    retractById(key, touched, changes, old, value)
    if (changed) untouched.foreach { r => emitBuffered(key, r, old, -1); emitBuffered(key, r, value, 1) }
    arrived.foreach(emitRow(key, _, value, 1))
    retracted.foreach(emitRow(key, _, value, -1))
    val fresh = arrived.map(r => toBuffered(r, settings.keep.fold(Long.MaxValue)(deadline(r, clock, _))))
    if (rewrites || touched.nonEmpty) replaceBuffer(removed(untouched ++ fresh, retracted))
    else fresh.foreach(appendToBuffer)
    if (settings.keep.isDefined) fresh.foreach(r => registerTimer(buffered.due(r)))
    if (settings.unmatchedValues) followAlone(key, old, value, changed, valueWasAlone)
  }

  /**
   * Retracts rows as they were emitted, whatever their retractions say. A row that is no longer buffered is
   * retracted as far as it is known.
   */
  private def retractById(
      key: InternalRow,
      touched: ArrayBuffer[InternalRow],
      changes: RowChanges,
      old: InternalRow,
      value: InternalRow): Unit = {
    touched.foreach(emitBuffered(key, _, old, -1))
    val known = touched.iterator.map(r => layout.rowId(buffered.row(r))).toSet
    changes.retractions.foreach { case (id, r) => if (!known(id)) emitRow(key, r, value, -1) }
  }

  /** A value without rows is emitted alone, and retracted when it changes or a row arrives. */
  private def followAlone(
      key: InternalRow,
      old: InternalRow,
      value: InternalRow,
      changed: Boolean,
      wasAlone: Boolean): Unit = {
    val isAlone = !anyBuffered
    if (old != null && wasAlone && (changed || !isAlone)) emit(key, null, old, null, -1)
    if (value != null && isAlone && (changed || !wasAlone)) emit(key, null, value, null, 1)
  }

  /** The rows without those that are retracted and have no id; equal rows are interchangeable. */
  private def removed(
      rows: ArrayBuffer[InternalRow],
      retracted: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val counts = new java.util.HashMap[InternalRow, Integer]
    retracted.foreach(r => counts.merge(layout.row(r), 1, (a: Integer, b: Integer) => a + b))
    rows.filter { r =>
      val n = counts.get(buffered.row(r))
      if (n != null && n > 0) { counts.put(buffered.row(r), n - 1); false } else true
    }
  }

  override protected def expire(key: InternalRow, times: TimerValues): Unit = {
    val clock = EventTime.clock(times, processingTime)
    val (expired, left) = bufferedRows().partition(buffered.due(_) <= clock)
    if (expired.nonEmpty) {
      // A row that waited in vain is emitted unmatched; one that followed its value stays as last emitted.
      if (settings.maxWait.isDefined) expired.foreach(emitBuffered(key, _, null, 1))
      replaceBuffer(left)
    }
  }
}
