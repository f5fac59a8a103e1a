package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.rows.EventTime
import org.apache.spark.sql.keyfold.state.TimerTicks
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** A stream that meets a table as it is now: the newest value of the key is kept, and rows that wait for one or follow it. */
class ArrivalEnrichProcessor(m: EnrichLayout, out: Seq[Expression], said: Seq[Attribute]) extends EnrichProcessor(m, out, said) {
  @transient private var table: ValueState[InternalRow] = _
  @transient private var arrival: Boolean = _
  override protected def heldSchema: StructType = super.heldSchema.add("due", LongType)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    table = getHandle.getValueState[InternalRow]("state", InternalRowEncoder.encoder(m.value), TTLConfig.NONE)
    if (m.follow || m.waits.isDefined) initHeld()
    arrival = time == TimeMode.ProcessingTime()
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    going.clear()
    if (key.anyNull) rows.foreach(unkeyed(key, _))
    else {
      val stored = table.get()
      val old = if (stored == null) null else stored.copy()
      val mine = new ArrayBuffer[InternalRow](2)
      var change: InternalRow = null
      while (rows.hasNext) {
        val r = rows.next()
        if (r.getInt(m.side) == 0) mine += r.copy()
        else if (change == null || change.getLong(m.order) < r.getLong(m.order)) change = r.copy()
      }
      val value = if (change == null) old else if (change.getInt(m.side) == 1) change.getStruct(m.valueAt, m.value.length) else null
      if (change != null && value != old) { if (value == null) table.clear() else table.update(value) }
      if (m.follow) follow(key, mine, old, value, times) else if (m.waits.isDefined) await(key, mine, value, times)
      else mine.foreach(r => say(key, rowOf(r), value, timeOf(r), 1))
    }
    going.iterator
  }

  private def held(r: InternalRow, due: Long): InternalRow = new GenericInternalRow(Array[Any](rowOf(r), timeOf(r), due))
  private def dueAt(h: InternalRow): Long = h.getLong(2)

  /** Rows wait for a value until they are due, each by itself. */
  private def await(key: InternalRow, mine: ArrayBuffer[InternalRow], value: InternalRow, times: TimerValues): Unit =
    if (value != null) {
      heldRows().foreach(h => say(key, heldRow(h), value, heldTime(h), 1))
      holdOnly(ArrayBuffer.empty)
      mine.foreach(r => say(key, rowOf(r), value, timeOf(r), 1))
    } else {
      val clock = EventTime.clock(times, arrival)
      mine.foreach { r =>
        val due = dueOf(r, clock, m.waits.get)
        if (due <= clock) say(key, rowOf(r), null, timeOf(r), 1)
        else { hold(held(r, due)); getHandle.registerTimer(TimerTicks.firing(due)) }
      }
    }

  /** By event time where the row has one; before the first clock nothing is due. */
  private def dueOf(r: InternalRow, clock: Long, length: Long): Long =
    (if (!arrival && !r.isNullAt(m.time)) r.getLong(m.time) else if (clock == EventTime.NoWatermark) 0L else clock) + length

  /** Rows follow their value: what was said of them is taken back when it changes. */
  private def follow(key: InternalRow, mine: ArrayBuffer[InternalRow], old: InternalRow, value: InternalRow, times: TimerValues): Unit = {
    val (came, gone) = mine.partition(_.getInt(m.weight) > 0)
    val clock = EventTime.clock(times, arrival)
    val changed = old != value
    val none = m.values && !anyHeld
    val before = if (changed || gone.nonEmpty) heldRows() else null
    if (changed) before.foreach { h => say(key, heldRow(h), old, heldTime(h), -1); say(key, heldRow(h), value, heldTime(h), 1) }
    came.foreach(r => say(key, rowOf(r), value, timeOf(r), 1))
    gone.foreach(r => say(key, rowOf(r), value, timeOf(r), -1))
    val fresh = came.map(r => held(r, m.keep.fold(Long.MaxValue)(dueOf(r, clock, _))))
    if (gone.nonEmpty) holdOnly(without(before ++ fresh, gone)) else fresh.foreach(hold)
    if (m.keep.isDefined) fresh.foreach(h => getHandle.registerTimer(TimerTicks.firing(dueAt(h))))
    if (m.values) {
      val alone = !anyHeld
      if (old != null && none && (changed || !alone)) say(key, null, old, null, -1)
      if (value != null && alone && (changed || !none)) say(key, null, value, null, 1)
    }
  }

  /** Of rows that are equal any one goes for another. */
  private def without(all: ArrayBuffer[InternalRow], gone: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val left = new java.util.HashMap[InternalRow, Integer]
    gone.foreach(r => left.merge(rowOf(r), 1, (a: Integer, b: Integer) => a + b))
    all.filter { h =>
      val n = left.get(heldRow(h))
      if (n != null && n > 0) { left.put(heldRow(h), n - 1); false } else true
    }
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    going.clear()
    val clock = EventTime.clock(times, arrival)
    val (over, left) = heldRows().partition(dueAt(_) <= clock)
    if (over.nonEmpty) {
      // A row that has waited goes on alone; one that has followed its value for so long stays as it was said last.
      if (m.waits.isDefined) over.foreach(h => say(key, heldRow(h), null, heldTime(h), 1))
      holdOnly(left)
    }
    going.iterator
  }
}
