package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** A window that is closed and kept: its bounds in microseconds and its state as it is stored. */
case class Kept(start: Long, end: Long, state: InternalRow)

/** When a table's windows speak, and for how many microseconds closed ones are kept. */
case class Closing(changes: Boolean, keep: Option[Long])

/**
 * Windows that close: all that a key has open is one packed value, beside the windows that are kept after their close. One timer per key waits for the next thing
 * that is due. States in the lists are as they are stored, and are never changed in place.
 */
abstract class Windowed(fold: Fold, arriving: Arriving, keeping: Keeping, closing: Closing) extends Folding(fold, arriving, keeping) {
  @transient private var state: ValueState[InternalRow] = _
  @transient protected var open: ArrayBuffer[InternalRow] = _
  @transient protected var kept: ArrayBuffer[Kept] = _
  @transient private var due: Long = _
  /** Windows that end at or before this time have been closed. */
  @transient protected var closed: Long = _
  protected val startAt: Int = fold.state.indexWhere(_.name == Names.Start)
  private val width = fold.state.length

  /** Closes what ends at or before the watermark. */
  protected def close(key: InternalRow, watermark: Long): Unit
  /** Folds the batch in and emits what changed. Returns whether any row was folded. */
  protected def add(key: InternalRow, batch: Array[InternalRow], watermark: Long): Unit
  /** Folds a replayed row into the closed windows that it missed. */
  protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit
  /** When the next open window ends. */
  protected def next: Long
  protected def openWindows: Iterator[Kept]

  override def stateSchema: StructType = {
    val s = new StructType().add("due", LongType).add("closed", LongType).add("open", ArrayType(fold.schema, containsNull = false))
    val one = new StructType().add("start", LongType).add("end", LongType).add("state", fold.schema)
    if (closing.keep.isEmpty) s else s.add("kept", ArrayType(one, containsNull = false))
  }

  override def init(mode: OutputMode, time: TimeMode): Unit = state = getHandle.getValueState[InternalRow]("state", Raw.encoder(stateSchema), TTLConfig.NONE)

  private def load(stored: InternalRow): Unit = {
    open = new ArrayBuffer[InternalRow](16)
    kept = new ArrayBuffer[Kept](0)
    due = Windowed.Never
    closed = Timing.None
    if (stored != null) {
      due = stored.getLong(0)
      closed = stored.getLong(1)
      val a = stored.getArray(2)
      var i = 0
      while (i < a.numElements()) { open += a.getStruct(i, width); i += 1 }
      if (closing.keep.isDefined) {
        val k = stored.getArray(3)
        kept ++= (0 until k.numElements()).map { i => val r = k.getStruct(i, 3); Kept(r.getLong(0), r.getLong(1), r.getStruct(2, width)) }
      }
    }
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => rejected(r.getUTF8String(arriving.bad)))
    val watermark = Timing.micros(times.getCurrentWatermarkInMs())
    load(state.get())
    out.clear()
    val (was, armed) = (due, due != Windowed.Never)
    // First, so that a row that some windows have missed is in none of those.
    if (armed && due <= watermark) settle(key, watermark)
    closed = math.max(closed, watermark)
    val batch = copies(rows)
    val (before, later) = (open.clone(), kept.clone())
    val said = out.length
    try {
      val (own, again) = batch.partition(r => r.isNullAt(arriving.bad) || Rejects.replayed(r.getUTF8String(arriving.bad)).isEmpty)
      if (own.nonEmpty) add(key, own, watermark)
      again.foreach(r => tried(r)(replay(key, r, Rejects.replayed(r.getUTF8String(arriving.bad)).get, watermark)))
    } catch {
      // What a reader would see can't be computed: the batch's rows are the reason.
      case e if Rejects.isRowError(e) =>
        open = before
        kept = later
        out.dropRightInPlace(out.length - said)
        batch.foreach(r => out += rejected(rejects.of(r, e)))
    }
    store(was, drop = armed)
    out.iterator
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val watermark = Timing.micros(times.getCurrentWatermarkInMs())
    load(state.get())
    out.clear()
    if (due > watermark) return Iterator.empty
    val was = due
    settle(key, watermark)
    store(was, drop = false)
    out.iterator
  }

  private def settle(key: InternalRow, watermark: Long): Unit = {
    close(key, watermark)
    closed = math.max(closed, watermark)
    for (keep <- closing.keep if kept.exists(_.end + keep <= watermark)) {
      val (gone, stay) = kept.partition(_.end + keep <= watermark)
      gone.foreach(w => out += live.delete(bounds(key, w.start, w.end)).copy())
      kept = stay
    }
  }

  /** Puts the state back and the timer where the next thing is due. */
  private def store(was: Long, drop: Boolean): Unit = {
    val ending = if (open.isEmpty) Windowed.Never else next
    due = closing.keep.filter(_ => kept.nonEmpty).fold(ending)(keep => math.min(ending, kept.iterator.map(_.end).min + keep))
    if (Windowed.tick(due) != Windowed.tick(was)) {
      if (drop) getHandle.deleteTimer(Windowed.tick(was))
      if (due != Windowed.Never) getHandle.registerTimer(Windowed.tick(due))
    }
    if (due == Windowed.Never) state.clear() else {
      val fields = Array[Any](due, closed, new GenericArrayData(open.toArray[Any]))
      val more = if (closing.keep.isEmpty) Array.empty[Any] else Array[Any](new GenericArrayData(kept.map(w => new GenericInternalRow(Array[Any](w.start, w.end, w.state))).toArray[Any]))
      state.update(new GenericInternalRow(fields ++ more))
    }
  }

  /** The key as readers see it: the user's, then the window's bounds. */
  @transient private lazy val window = new GenericInternalRow(2)
  @transient private lazy val whole = new JoinedRow
  protected def bounds(key: InternalRow, start: Long, end: Long): InternalRow = {
    window.update(0, start)
    window.update(1, end)
    whole(key, window)
  }

  protected def upsert(key: InternalRow, start: Long, end: Long, stored: InternalRow): Unit =
    if (closing.changes) out += live.upsert(bounds(key, start, end), live.read(stored)).copy()

  protected def finish(key: InternalRow, start: Long, end: Long, stored: InternalRow): Unit = {
    try out += live.last(bounds(key, start, end), live.read(stored)).copy() catch {
      case e if Rejects.isRowError(e) => out += rejected(rejects.of(Rejects.reason(e), s"the window from ${Timing.text(start)} to ${Timing.text(end)}"))
    }
    if (closing.keep.isDefined) keepClosed(Kept(start, end, stored))
  }

  protected def keepClosed(w: Kept): Unit = {
    val at = kept.indexWhere(k => k.start == w.start && k.end == w.end)
    if (at < 0) kept += w else kept(at) = w
  }

  /** One row, or state, that arrived, folded into a stored state or into nothing. */
  protected def with1(stored: InternalRow, row: InternalRow): InternalRow = {
    val b = if (stored == null) live.zero() else live.load(stored)
    if (arriving.ordered) { val old = live.renew(b); live.update(b, row); live.settle(b, old) } else live.merge(b, row)
    live.stored(b)
  }

  @transient private lazy val before = new GenericInternalRow(arriving.prefix)
  @transient private lazy val prefixed = new JoinedRow
  protected def mergeInto(b: InternalRow, stored: InternalRow): Unit = live.merge(b, prefixed(before, stored))
  protected def merged(a: InternalRow, b: InternalRow): InternalRow = { val x = live.load(a); mergeInto(x, b); live.stored(x) }

  protected def time(row: InternalRow): Long = row.getStruct(arriving.stamp, 2).getLong(0)

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    load(stored)
    out.clear()
    if (closing.changes) openWindows.foreach(w => upsert(key, w.start, w.end, w.state))
    kept.foreach(w => out += live.upsert(bounds(key, w.start, w.end), live.read(w.state)).copy())
    out.iterator
  }
}

object Windowed {
  val Never: Long = Long.MaxValue
  /** The first millisecond at which something is due; before the first watermark, at zero, nothing is. */
  def tick(micros: Long): Long = if (micros == Never) Never else math.max(1L, -Math.floorDiv(-micros, 1000L))
}
