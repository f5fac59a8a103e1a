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
 * Windows that close: all that a key has open is one packed value, and one timer per key waits for the next window to end. Windows that are kept after their close
 * are written once and read for a replay alone, so that they are entries of a map, each with a timer for its end. States in lists are as they are stored, and are
 * never changed in place.
 */
abstract class Windowed(fold: Fold, arriving: Arriving, keeping: Keeping, closing: Closing) extends Folding(fold, arriving, keeping) {
  @transient private var state: ValueState[InternalRow] = _
  @transient protected var open: ArrayBuffer[InternalRow] = _
  @transient private var kept: MapState[InternalRow, InternalRow] = _
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

  override def stateSchema: StructType = new StructType().add("due", LongType).add("closed", LongType).add("open", ArrayType(fold.schema, containsNull = false))
  private def keptSchema = new StructType().add("start", LongType).add("end", LongType).add("state", fold.schema)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", Raw.encoder(stateSchema), TTLConfig.NONE)
    if (closing.keep.isDefined) kept = getHandle.getMapState[InternalRow, InternalRow](Windowed.Kept, Raw.encoder(Windowed.tickSchema), Raw.encoder(keptSchema), TTLConfig.NONE)
  }

  private def load(stored: InternalRow): Unit = {
    open = new ArrayBuffer[InternalRow](16)
    due = if (stored == null) Windowed.Never else stored.getLong(0)
    closed = if (stored == null) Timing.None else stored.getLong(1)
    if (stored != null) {
      val a = stored.getArray(2)
      var i = 0
      while (i < a.numElements()) { open += a.getStruct(i, width); i += 1 }
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
    val before = open.clone()
    val said = out.length
    try {
      val (own, again) = batch.partition(r => r.isNullAt(arriving.bad) || Rejects.replayed(r.getUTF8String(arriving.bad)).isEmpty)
      if (own.nonEmpty) add(key, own, watermark)
      again.foreach(r => tried(r)(replay(key, r, Rejects.replayed(r.getUTF8String(arriving.bad)).get, watermark)))
      if (again.nonEmpty) sayCorrected(key)
    } catch {
      // What a reader would see can't be computed: the batch's rows are the reason.
      case e if Rejects.isRowError(e) =>
        open = before
        out.dropRightInPlace(out.length - said)
        batch.foreach(r => out += rejected(rejects.of(r, e)))
    }
    // A kept window may count on the same tick, so that there timers are left to fire.
    store(was, drop = armed && closing.keep.isEmpty)
    out.iterator
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val watermark = Timing.micros(times.getCurrentWatermarkInMs())
    load(state.get())
    out.clear()
    if (due <= watermark) {
      val was = due
      settle(key, watermark)
      store(was, drop = false)
    }
    for (keep <- closing.keep; w <- recall(timer.getExpiryTimeInMs() - keep / 1000) if w.end + keep <= watermark) {
      forget(w)
      out += live.delete(bounds(key, w.start, w.end)).copy()
    }
    out.iterator
  }

  private def settle(key: InternalRow, watermark: Long): Unit = {
    close(key, watermark)
    closed = math.max(closed, watermark)
  }

  /** Puts the state back and the timer where the next thing is due. */
  private def store(was: Long, drop: Boolean): Unit = {
    due = if (open.isEmpty) Windowed.Never else next
    if (Windowed.tick(due) != Windowed.tick(was)) {
      if (drop) getHandle.deleteTimer(Windowed.tick(was))
      if (due != Windowed.Never) getHandle.registerTimer(Windowed.tick(due))
    }
    if (due == Windowed.Never) state.clear() else state.update(new GenericInternalRow(Array[Any](due, closed, new GenericArrayData(open.toArray[Any]))))
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

  /** A window's last word, or its corrected one. */
  protected def finish(key: InternalRow, start: Long, end: Long, stored: InternalRow, watermark: Long): Unit = {
    say(key, Kept(start, end, stored))
    closing.keep.foreach(keep => if (end + keep > watermark) remember(Kept(start, end, stored)) else out += live.delete(bounds(key, start, end)).copy())
  }
  private def say(key: InternalRow, w: Kept): Unit = {
    try out += live.last(bounds(key, w.start, w.end), live.read(w.state)).copy() catch {
      case e if Rejects.isRowError(e) => out += rejected(rejects.of(Rejects.reason(e), s"the window from ${Timing.text(w.start)} to ${Timing.text(w.end)}"))
    }
  }

  // What replayed rows did to windows that are kept; said once all of them are folded.
  @transient private lazy val corrected = scala.collection.mutable.LinkedHashMap.empty[(Long, Long), Kept]
  @transient private lazy val undone = scala.collection.mutable.LinkedHashSet.empty[(Long, Long)]
  protected def correct(w: Kept): Unit = { remember(w); corrected((w.start, w.end)) = w; undone -= ((w.start, w.end)) }
  protected def undo(w: Kept): Unit = { forget(w); corrected -= ((w.start, w.end)); undone += ((w.start, w.end)) }
  private def sayCorrected(key: InternalRow): Unit = {
    undone.foreach { case (from, to) => out += live.delete(bounds(key, from, to)).copy() }
    corrected.values.foreach(say(key, _))
    undone.clear()
    corrected.clear()
  }

  /** Ends of windows of one key that are kept are in different milliseconds. */
  private def at(tick: Long): InternalRow = new GenericInternalRow(Array[Any](tick))
  private def remember(w: Kept): Unit = {
    val tick = Windowed.tick(w.end)
    if (!kept.containsKey(at(tick))) getHandle.registerTimer(tick + closing.keep.get / 1000)
    kept.updateValue(at(tick), new GenericInternalRow(Array[Any](w.start, w.end, w.state)))
  }
  protected def recall(tick: Long): Option[Kept] = Option(kept.getValue(at(tick))).map(asKept)
  private def forget(w: Kept): Unit = kept.removeKey(at(Windowed.tick(w.end)))
  protected def everyKept: Seq[Kept] = kept.values().map(r => asKept(r.copy())).toSeq
  private def asKept(r: InternalRow): Kept = Kept(r.getLong(0), r.getLong(1), r.getStruct(2, width))

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
    openWindows.foreach(w => upsert(key, w.start, w.end, w.state))
    out.iterator
  }

  /** What a reader sees of a window that is kept. */
  override def shownKept(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    val w = asKept(stored)
    Iterator.single(live.last(bounds(key, w.start, w.end), live.read(w.state)))
  }
}

object Windowed {
  val Never: Long = Long.MaxValue
  /** The state variable of kept windows. */
  val Kept = "kept"
  val tickSchema: StructType = new StructType().add("tick", LongType)
  /** The first millisecond at which something is due; before the first watermark, at zero, nothing is. */
  def tick(micros: Long): Long = if (micros == Never) Never else math.max(1L, -Math.floorDiv(-micros, 1000L))
}
