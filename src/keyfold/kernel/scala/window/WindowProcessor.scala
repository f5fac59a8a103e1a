package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.{ArrayBuffer, LinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.rows.{EventTime, SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, StatePacking, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** A window by its bounds, in microseconds, and its state as it is stored. */
case class WindowState(start: Long, end: Long, state: InternalRow)

/**
 * Windows that close: all that a key has open is one packed value, and one lazy timer per key waits for the next window to end. Windows that are kept after their
 * close are written once and read for a replay alone, so that they are entries of a map, each with a timer for its end. States in lists are as they are stored, and
 * are never changed in place.
 */
abstract class WindowProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, closing: WindowEmission) extends KeyedProcessor(fold, arriving, keeping) {
  @transient private var state: ValueState[InternalRow] = _
  @transient private var kept: MapState[InternalRow, InternalRow] = _
  @transient protected var open: ArrayBuffer[InternalRow] = _
  /** When the key's timer fires: when the next window ends, or before. */
  @transient private var armed: Long = _
  /** Windows that end at or before this time have been closed. */
  @transient protected var closed: Long = _
  protected val startAt: Int = fold.state.indexWhere(_.name == InternalColumns.Start)
  private val width = fold.state.length
  private val packing = StatePacking.of(fold)

  /** Closes what ends at or before the watermark. */
  protected def close(key: InternalRow, watermark: Long): Unit
  /** Folds the batch in and emits what changed. */
  protected def add(key: InternalRow, batch: Array[InternalRow]): Unit
  /** Folds a replayed row into the closed windows that it missed, those that ended at or before `missed`. */
  protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit
  /** When the next open window ends. */
  protected def next: Long
  protected def openWindows: Iterator[WindowState]

  override def stateSchema: StructType = new StructType().add("due", LongType).add("closed", LongType).add("open", packing.dataType)
  private def keptSchema = new StructType().add("start", LongType).add("end", LongType).add("state", fold.schema)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", InternalRowEncoder.encoder(stateSchema), TTLConfig.NONE)
    if (closing.keep.isDefined) kept = getHandle.getMapState[InternalRow, InternalRow](WindowProcessor.Kept, InternalRowEncoder.encoder(TimerTicks.schema), InternalRowEncoder.encoder(keptSchema), TTLConfig.NONE)
  }

  private def load(stored: InternalRow): Unit = {
    open = if (stored == null) new ArrayBuffer[InternalRow](16) else packing.unpack(stored, 2)
    armed = if (stored == null) TimerTicks.Never else stored.getLong(0)
    closed = if (stored == null) EventTime.NoWatermark else stored.getLong(1)
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(arriving.sideOutput(r)))
    val watermark = EventTime.watermark(batch.upstreamWatermarkMs.getOrElse(times.getCurrentWatermarkInMs()))
    load(state.get())
    out.clear()
    val was = armed
    // First, so that a row that some windows have missed is in none of those.
    settle(key, watermark)
    val (again, own) = copies(rows).partition(missed(_).isDefined)
    if (own.nonEmpty) whole(own)(add(key, own))
    again.foreach(r => whole(Array(r))(replay(key, r, missed(r).get, watermark)))
    if (again.nonEmpty) correct(key)
    // A kept window may count on the same tick, so that there timers are left to fire.
    store(was, watermark, drop = closing.keep.isEmpty)
    out.iterator
  }

  /** The watermark that a replayed row was too late for; None for a row that isn't replayed. */
  private def missed(row: InternalRow): Option[Long] = Option(arriving.sideOutput(row)).filter(SideOutput.isReplayed).map(SideOutput.watermark)

  /** All of it or nothing: what can't be folded, or shown, leaves state and output as they were, and the rows are refused. */
  private def whole(rows: Array[InternalRow])(act: => Unit): Unit = {
    val (before, said, pending) = (open.clone(), out.length, corrections.clone())
    try act catch {
      case e: RowError =>
        open = before
        out.dropRightInPlace(out.length - said)
        corrections = pending
        rows.foreach(refuse(_, e))
    }
  }

  /** A row that has a side output is refused with that: a late one stays late. */
  private def refuse(row: InternalRow, e: RowError): Unit = out += sideOutputRow {
    val side = arriving.sideOutput(row)
    if (side == null) rejects.rejected(row, e)
    else if (SideOutput.isReplayed(side)) rejects.rejected(RowError.reason(e), SideOutput.raw(side))
    else side
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val watermark = EventTime.watermark(times.getCurrentWatermarkInMs())
    load(state.get())
    out.clear()
    if (armed <= watermark) {
      val was = armed
      settle(key, watermark)
      store(was, watermark, drop = false)
    }
    closing.keep.foreach { keep =>
      val tick = timer.getExpiryTimeInMs() - keep / 1000
      // The first tick stands for all before it.
      val over = if (timer.getExpiryTimeInMs() == 1L) everyKept else recall(tick).toSeq
      over.filter(_.end + keep <= watermark).foreach { w =>
        kept.removeKey(at(TimerTicks.of(w.end)))
        gone(key, w, closed = true)
      }
    }
    out.iterator
  }

  private def settle(key: InternalRow, watermark: Long): Unit = {
    if (armed <= watermark) close(key, watermark)
    closed = math.max(closed, watermark)
  }

  /** Puts the state back, and the timer where it must be: a window that ends later than it fires costs nothing until then. */
  private def store(was: Long, watermark: Long, drop: Boolean): Unit = {
    val due = if (open.isEmpty) TimerTicks.Never else next
    val stays = was != TimerTicks.Never && was > watermark && was <= due && due != TimerTicks.Never
    armed = if (stays) was else due
    if (TimerTicks.firing(armed) != TimerTicks.firing(was)) {
      if (drop && was != TimerTicks.Never) getHandle.deleteTimer(TimerTicks.firing(was))
      if (armed != TimerTicks.Never) getHandle.registerTimer(TimerTicks.firing(armed))
    }
    if (armed != TimerTicks.Never) state.update(new GenericInternalRow(Array[Any](armed, closed, packing.pack(open))))
    else if (was != TimerTicks.Never) state.clear()
  }

  /** The key as readers see it: the user's, then the window's bounds. */
  @transient private lazy val window = new GenericInternalRow(2)
  @transient private lazy val wholeKey = new JoinedRow
  protected def bounds(key: InternalRow, start: Long, end: Long): InternalRow = {
    window.update(0, start)
    window.update(1, end)
    wholeKey(key, window)
  }

  protected def upsert(key: InternalRow, start: Long, end: Long, stored: InternalRow, old: => InternalRow): Unit =
    if (closing.changes) out += live.upsert(bounds(key, start, end), live.read(stored), before(key, start, end, old)).copy()

  private def before(key: InternalRow, start: Long, end: Long, old: => InternalRow, closed: Boolean = false): InternalRow =
    if (!fold.previous) null else live.before(bounds(key, start, end), Option(old).map(live.read).orNull, closed)

  /** A window that readers have seen is there no more. */
  protected def gone(key: InternalRow, w: WindowState, closed: Boolean): Unit = {
    val was = before(key, w.start, w.end, w.state, closed)
    out += live.delete(bounds(key, w.start, w.end), was).copy()
  }

  /** A window's last word. One whose value can't be computed is rejected as a window, since its rows are gone, and is not kept. */
  protected def finish(key: InternalRow, start: Long, end: Long, watermark: Long)(stored: => InternalRow): Unit = try {
    val w = WindowState(start, end, stored)
    val was = before(key, start, end, if (closing.changes) w.state else null)
    out += live.last(bounds(key, start, end), live.read(w.state), was).copy()
    closing.keep.foreach(keep => if (end + keep > watermark) remember(w) else gone(key, w, closed = true))
  } catch {
    case e: RowError => out += sideOutputRow(rejects.rejected(RowError.reason(e), s"the window from ${EventTime.text(start)} to ${EventTime.text(end)}"))
  }

  // What replayed rows do to windows that are kept, by their ticks: their new state, or none. Written down and said once all of the batch's are folded.
  private var corrections: LinkedHashMap[Long, (WindowState, Boolean)] = LinkedHashMap.empty
  protected def renew(key: InternalRow, w: WindowState): Unit = {
    // One that can't be shown is no correction, and its row is refused.
    live.last(bounds(key, w.start, w.end), live.read(w.state), null)
    corrections(TimerTicks.of(w.end)) = (w, true)
  }
  protected def undo(w: WindowState): Unit = corrections(TimerTicks.of(w.end)) = (w, false)

  private def correct(key: InternalRow): Unit = {
    val now = corrections
    corrections = LinkedHashMap.empty
    // What a reader has seen goes if its bounds do, as with a session that grew backwards and ends where it did.
    for ((tick, (w, stays)) <- now; old <- recall(tick)) {
      if (!stays || old.start != w.start) gone(key, old, closed = true)
      if (!stays) kept.removeKey(at(tick))
    }
    for ((tick, (w, stays)) <- now if stays) {
      val was = before(key, w.start, w.end, recall(tick).filter(_.start == w.start).map(_.state).orNull, closed = true)
      out += live.last(bounds(key, w.start, w.end), live.read(w.state), was).copy()
      remember(w)
    }
  }

  private def at(tick: Long): InternalRow = new GenericInternalRow(Array[Any](tick))
  private def remember(w: WindowState): Unit = {
    val tick = TimerTicks.of(w.end)
    if (!kept.containsKey(at(tick))) getHandle.registerTimer(math.max(1L, tick + closing.keep.get / 1000))
    kept.updateValue(at(tick), new GenericInternalRow(Array[Any](w.start, w.end, w.state)))
  }
  /** The kept window that ends in a millisecond, as the batch's replays have left it. */
  protected def recall(tick: Long): Option[WindowState] = corrections.get(tick) match {
    case Some((w, stays)) => if (stays) Some(w) else None
    case None => Option(kept.getValue(at(tick))).map(asBounded)
  }
  protected def everyKept: Seq[WindowState] =
    kept.values().map(r => asBounded(r.copy())).filterNot(w => corrections.contains(TimerTicks.of(w.end))).toSeq ++ corrections.values.filter(_._2).map(_._1)
  private def asBounded(r: InternalRow): WindowState = WindowState(r.getLong(0), r.getLong(1), r.getStruct(2, width))

  /** A stored state, or none, and one row more, or the state that arrived. */
  protected def plus(stored: InternalRow, row: InternalRow): InternalRow = if (arriving.ordered) live.plus(stored, row) else {
    val b = if (stored == null) live.zero() else live.load(stored)
    live.merge(b, row)
    live.stored(b)
  }

  protected def merged(a: InternalRow, b: InternalRow): InternalRow = { val x = live.load(a); mergeInto(x, b); live.stored(x) }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    load(stored)
    out.clear()
    openWindows.foreach(w => upsert(key, w.start, w.end, w.state, null))
    out.iterator
  }

  override def shownKept(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    val w = asBounded(stored)
    Iterator.single(live.last(bounds(key, w.start, w.end), live.read(w.state), null))
  }
}

object WindowProcessor {
  /** The state variable of kept windows. */
  val Kept = "kept"
}
