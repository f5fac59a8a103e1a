package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * A stream that meets a table, both by the table's key. What comes through the shuffle: the key, a `row` of the stream or a `value` of the table, which of them it is
 * (`side`: 0 a row, 1 a value, 2 a value that is gone), the row's time, the order of changes, the row's weight, and the text of a row set aside.
 *
 * Rows without a value go on alone (`rows`), values without a row do (`values`), or not. `waits`: how long a row waits for a value, in microseconds; `follow`: rows are
 * kept, for `keep` or for good, and are said anew when their value changes.
 */
case class Meeting(keys: Int, row: StructType, value: StructType, rows: Boolean, values: Boolean, waits: Option[Long], follow: Boolean, keep: Option[Long]) {
  val (rowAt, valueAt, side, time, order, weight, bad) = (keys, keys + 1, keys + 2, keys + 3, keys + 4, keys + 5, keys + 6)
  val said: Int = keys + 2
}

/** `out`: what goes on, over the key, a row, a value, the row's time, a weight and a text. */
class Enriched(m: Meeting, out: Seq[Expression], over: Seq[Attribute]) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var table: ValueState[InternalRow] = _
  @transient private var waiting: ListState[InternalRow] = _
  @transient private var arrival: Boolean = _
  @transient private lazy val project = UnsafeProjection.create(out, over)
  @transient private lazy val (joined, rest, said) = (new JoinedRow, new GenericInternalRow(5), new ArrayBuffer[InternalRow](8))
  private val holds = m.follow || m.waits.isDefined
  private def heldSchema = new StructType().add("row", m.row).add("time", LongType).add("due", LongType)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    table = getHandle.getValueState[InternalRow]("state", Raw.encoder(m.value), TTLConfig.NONE)
    if (holds) waiting = getHandle.getListState[InternalRow]("rows", Raw.encoder(heldSchema), TTLConfig.NONE)
    arrival = time == TimeMode.ProcessingTime()
  }

  private def now(times: TimerValues): Long = if (arrival) times.getCurrentProcessingTimeInMs() * 1000 else Timing.micros(times.getCurrentWatermarkInMs())

  private def say(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int): Unit = {
    if (value == null && !m.rows || row == null && !m.values) return
    rest.update(0, row); rest.update(1, value); rest.update(2, time); rest.update(3, weight); rest.update(4, null)
    said += project(joined(key, rest)).copy()
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    said.clear()
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
    said.iterator
  }

  private def rowOf(r: InternalRow): InternalRow = r.getStruct(m.rowAt, m.row.length)
  private def timeOf(r: InternalRow): Any = if (r.isNullAt(m.time)) null else r.getLong(m.time)

  /** Rows that were set aside go through; a row without a key meets no value. */
  private def unkeyed(key: InternalRow, r: InternalRow): Unit =
    if (r.isNullAt(m.bad)) { if (r.getInt(m.side) == 0) say(key, rowOf(r), null, timeOf(r), r.getInt(m.weight)) }
    else {
      rest.update(0, null); rest.update(1, null); rest.update(2, timeOf(r)); rest.update(3, 1); rest.update(4, r.getUTF8String(m.bad))
      said += project(joined(key, rest)).copy()
    }

  private def held(r: InternalRow, due: Long): InternalRow = new GenericInternalRow(Array[Any](rowOf(r), timeOf(r), due))
  private def heldTime(h: InternalRow): Any = if (h.isNullAt(1)) null else h.getLong(1)
  private def heldRow(h: InternalRow): InternalRow = h.getStruct(0, m.row.length)
  private def heldRows(): ArrayBuffer[InternalRow] = { val all = new ArrayBuffer[InternalRow]; waiting.get().foreach(h => all += h.copy()); all }
  private def hold(all: ArrayBuffer[InternalRow]): Unit = if (all.isEmpty) waiting.clear() else waiting.put(all.toArray)

  /** Rows wait for a value until they are due, each by itself. */
  private def await(key: InternalRow, mine: ArrayBuffer[InternalRow], value: InternalRow, times: TimerValues): Unit =
    if (value != null) {
      heldRows().foreach(h => say(key, heldRow(h), value, heldTime(h), 1))
      waiting.clear()
      mine.foreach(r => say(key, rowOf(r), value, timeOf(r), 1))
    } else {
      val clock = now(times)
      mine.foreach { r =>
        val due = dueOf(r, clock, m.waits.get)
        if (due <= clock) say(key, rowOf(r), null, timeOf(r), 1)
        else { waiting.appendValue(held(r, due)); getHandle.registerTimer(math.max(1L, Windowed.tick(due))) }
      }
    }

  /** By event time where the row has one; before the first clock nothing is due. */
  private def dueOf(r: InternalRow, clock: Long, length: Long): Long =
    (if (!arrival && !r.isNullAt(m.time)) r.getLong(m.time) else if (clock == Timing.Unknown) 0L else clock) + length

  /** Rows follow their value: what was said of them is taken back when it changes. */
  private def follow(key: InternalRow, mine: ArrayBuffer[InternalRow], old: InternalRow, value: InternalRow, times: TimerValues): Unit = {
    val (came, gone) = mine.partition(_.getInt(m.weight) > 0)
    val clock = now(times)
    val changed = old != value
    val none = m.values && !waiting.exists()
    val before = if (changed || gone.nonEmpty) heldRows() else null
    if (changed) before.foreach { h => say(key, heldRow(h), old, heldTime(h), -1); say(key, heldRow(h), value, heldTime(h), 1) }
    came.foreach(r => say(key, rowOf(r), value, timeOf(r), 1))
    gone.foreach(r => say(key, rowOf(r), value, timeOf(r), -1))
    val fresh = came.map(r => held(r, m.keep.fold(Long.MaxValue)(dueOf(r, clock, _))))
    if (gone.nonEmpty) hold(without(before ++ fresh.map(project2), gone)) else fresh.foreach(waiting.appendValue)
    if (m.keep.isDefined) fresh.foreach(h => getHandle.registerTimer(math.max(1L, Windowed.tick(h.getLong(2)))))
    if (m.values) {
      val alone = !waiting.exists()
      if (old != null && none && (changed || !alone)) say(key, null, old, null, -1)
      if (value != null && alone && (changed || !none)) say(key, null, value, null, 1)
    }
  }

  @transient private lazy val asUnsafe = UnsafeProjection.create(heldSchema)
  private def project2(h: InternalRow): InternalRow = asUnsafe(h).copy()

  private def without(all: ArrayBuffer[InternalRow], gone: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val going = new java.util.HashMap[InternalRow, Integer]
    gone.foreach(r => going.merge(rowOf(r), 1, (a: Integer, b: Integer) => a + b))
    all.filter { h =>
      val n = going.get(heldRow(h))
      if (n != null && n > 0) { going.put(heldRow(h), n - 1); false } else true
    }
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    said.clear()
    val clock = now(times)
    val (over, left) = heldRows().partition(_.getLong(2) <= clock)
    if (over.nonEmpty) {
      // A row that has waited goes on alone; one that has followed its value for so long stays as it was said last.
      if (m.waits.isDefined) over.foreach(h => say(key, heldRow(h), null, heldTime(h), 1))
      hold(left)
    }
    said.iterator
  }
}
