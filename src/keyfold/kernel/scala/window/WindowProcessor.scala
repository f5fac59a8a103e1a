package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, StatePacking, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Windows that close. All open windows of a key are one packed value, and one lazy timer per key waits for
 * the next window to end. Closed windows may be kept for replays (`KeptWindows`). States in lists are in
 * stored form and are never changed in place.
 */
abstract class WindowProcessor(
    fold: AggregateFold,
    layout: ShuffledRowLayout,
    settings: SideOutputSettings,
    emission: WindowEmission) extends KeyedProcessor(fold, layout, settings) {
  @transient private var state: ValueState[InternalRow] = _
  /** Null unless closed windows are kept. */
  @transient protected var kept: KeptWindows = _
  @transient protected var open: ArrayBuffer[InternalRow] = _
  /** When the key's timer fires: when the next window ends, or before. */
  @transient private var timer: Long = _
  /** Windows that end at or before this time have been closed. */
  @transient protected var closed: Long = _
  protected val startAt: Int = fold.state.indexWhere(_.name == InternalColumns.Start)
  private val stateLayout = WindowStateLayout(StatePacking.of(fold))
  private val keptLayout = KeptWindowLayout(fold.schema)
  /** For how long closed windows are kept, if they are. */
  def keepMicros: Option[Long] = emission.keep
  @transient private lazy val changes = new WindowChanges(live, fold.previous)

  /** Closes the windows that end at or before the watermark. */
  protected def close(key: InternalRow, watermark: Long): Unit
  /** Folds the batch in and emits the changes. */
  protected def add(key: InternalRow, batch: Array[InternalRow]): Unit
  /** Folds a replayed row into the closed windows that it missed, those that ended at or before `missed`. */
  protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit
  /** When the next open window ends. */
  protected def nextEnd: Long
  protected def openWindows: Iterator[WindowState]

  override def stateSchema: StructType = stateLayout.schema

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    val encoder = InternalRowEncoder.encoder(stateSchema)
    state = getHandle.getValueState[InternalRow]("state", encoder, TTLConfig.NONE)
    emission.keep.foreach(keep => kept = new KeptWindows(getHandle, keptLayout, keep))
  }

  private def load(stored: InternalRow): Unit = {
    open = if (stored == null) new ArrayBuffer[InternalRow](16) else stateLayout.open(stored)
    timer = if (stored == null) TimerTicks.Never else stateLayout.timer(stored)
    closed = if (stored == null) EventTime.NoWatermark else stateLayout.closed(stored)
  }

  override def handleInputRows(
      key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(layout.sideOutput(r)))
    val watermark =
      EventTime.watermark(batch.upstreamWatermarkMs.getOrElse(times.getCurrentWatermarkInMs()))
    load(state.get())
    out.clear()
    val oldTimer = timer
    // Closed first, so that a row is not folded into windows that it has missed.
    advance(key, watermark)
    val (replayed, current) = copies(rows).partition(missed(_).isDefined)
    if (current.nonEmpty) atomically(current)(add(key, current))
    replayed.foreach(r => atomically(Array(r))(replay(key, r, missed(r).get, watermark)))
    if (replayed.nonEmpty) kept.applyCorrections(key, changes, out)
    // A kept window may need the timer of the same tick: then timers are left to fire.
    store(oldTimer, watermark, deleteTimer = emission.keep.isEmpty)
    out.iterator
  }

  /** The watermark that a replayed row was too late for; None for a row that isn't replayed. */
  private def missed(row: InternalRow): Option[Long] =
    Option(layout.sideOutput(row)).filter(SideOutput.isReplayed).map(SideOutput.watermark)

  /**
   * Folds rows all or nothing: if a user's expression throws, state and output are as they were before, and
   * the rows are rejected.
   */
  private def atomically(rows: Array[InternalRow])(act: => Unit): Unit = {
    val (before, emitted) = (open.clone(), out.length)
    val corrections = if (kept == null) null else kept.pendingCorrections()
    try act catch {
      case e: RowError =>
        open = before
        out.dropRightInPlace(out.length - emitted)
        if (kept != null) kept.restoreCorrections(corrections)
        rows.foreach(reject(_, e))
    }
  }

  /** Rejects a row; one that arrived with a side output leaves by that: a late row stays late. */
  private def reject(row: InternalRow, e: RowError): Unit = out += sideOutputRow {
    val side = layout.sideOutput(row)
    if (side == null) rejects.rejected(row, e)
    else if (SideOutput.isReplayed(side)) rejects.rejected(RowError.reason(e), SideOutput.raw(side))
    else side
  }

  override def handleExpiredTimer(
      key: InternalRow, times: TimerValues, expired: ExpiredTimerInfo): Iterator[InternalRow] = {
    val watermark = EventTime.watermark(times.getCurrentWatermarkInMs())
    load(state.get())
    out.clear()
    if (timer <= watermark) {
      val oldTimer = timer
      advance(key, watermark)
      store(oldTimer, watermark, deleteTimer = false)
    }
    emission.keep.foreach { keep =>
      kept.due(expired.getExpiryTimeInMs()).filter(_.end + keep <= watermark).foreach { w =>
        kept.delete(TimerTicks.of(w.end))
        emitDelete(key, w, closed = true)
      }
    }
    out.iterator
  }

  private def advance(key: InternalRow, watermark: Long): Unit = {
    if (timer <= watermark) close(key, watermark)
    closed = math.max(closed, watermark)
  }

  /**
   * Stores the state and moves the timer if it must. A timer that fires before the next window ends stays:
   * a window that ends later costs nothing until then.
   */
  private def store(oldTimer: Long, watermark: Long, deleteTimer: Boolean): Unit = {
    val due = if (open.isEmpty) TimerTicks.Never else nextEnd
    val stays =
      oldTimer != TimerTicks.Never && oldTimer > watermark && oldTimer <= due && due != TimerTicks.Never
    timer = if (stays) oldTimer else due
    if (TimerTicks.firing(timer) != TimerTicks.firing(oldTimer)) {
      if (deleteTimer && oldTimer != TimerTicks.Never) getHandle.deleteTimer(TimerTicks.firing(oldTimer))
      if (timer != TimerTicks.Never) getHandle.registerTimer(TimerTicks.firing(timer))
    }
    if (timer != TimerTicks.Never) state.update(stateLayout.encode(timer, closed, open))
    else if (oldTimer != TimerTicks.Never) state.clear()
  }

  protected def emitUpsert(
      key: InternalRow, start: Long, end: Long, stored: InternalRow, old: => InternalRow): Unit =
    if (emission.changes) out += changes.upsert(key, WindowState(start, end, stored), old)

  /** Deletes the table row of a window that has been emitted. */
  protected def emitDelete(key: InternalRow, w: WindowState, closed: Boolean): Unit =
    out += changes.delete(key, w, closed)

  /**
   * Emits the final row of a window. If its value can't be computed, the window itself is rejected, since its
   * rows are no longer known, and it is not kept.
   */
  protected def emitFinal(key: InternalRow, start: Long, end: Long, watermark: Long)(
      stored: => InternalRow): Unit = try {
    val w = WindowState(start, end, stored)
    out += changes.last(key, w, if (emission.changes) w.state else null, closed = false)
    emission.keep.foreach { keep =>
      if (end + keep > watermark) kept.put(w) else emitDelete(key, w, closed = true)
    }
  } catch {
    case e: RowError =>
      val window = s"the window from ${EventTime.text(start)} to ${EventTime.text(end)}"
      out += sideOutputRow(rejects.rejected(RowError.reason(e), window))
  }

  /** Gives a kept window a new state, to be emitted when all replayed rows of the batch are folded. */
  protected def correct(key: InternalRow, w: WindowState): Unit = {
    // Evaluated now, so that a row whose correction can't be emitted is rejected.
    changes.last(key, w, null, closed = true)
    kept.replace(w)
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    load(stored)
    out.clear()
    openWindows.foreach(w => emitUpsert(key, w.start, w.end, w.state, null))
    out.iterator
  }

  override def keptSchema: StructType = keptLayout.schema
  override def shownKept(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = {
    Iterator.single(changes.last(key, keptLayout.decode(stored), null, closed = true))
  }
}
