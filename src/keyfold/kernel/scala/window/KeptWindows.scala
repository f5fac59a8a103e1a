package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.{ArrayBuffer, LinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.state.TimerTicks
import org.apache.spark.sql.streaming.{MapState, StatefulProcessorHandle, TTLConfig}
import org.apache.spark.sql.types.{LongType, StructType}

/** A closed window that is kept for replays: its bounds, and its state as it is stored. */
case class KeptWindowLayout(state: StructType) {
  val schema: StructType =
    new StructType().add("start", LongType).add("end", LongType).add("state", state)

  def decode(stored: InternalRow): WindowState =
    WindowState(stored.getLong(0), stored.getLong(1), stored.getStruct(2, state.length))
  def encode(w: WindowState): InternalRow =
    new GenericInternalRow(Array[Any](w.start, w.end, w.state))
}

/** What replayed rows change of a kept window: its new state, or its removal. */
case class Correction(window: WindowState, removed: Boolean)

/**
 * The closed windows of a key that are kept for replays. They are written once and read for a replay alone,
 * so that they are entries of a map, by the tick of their end, each with a timer for its expiry. Corrections
 * are collected while a batch's replays are folded, and are stored once, when all of them are.
 */
class KeptWindows(handle: StatefulProcessorHandle, layout: KeptWindowLayout, keepMicros: Long) {
  private val stored: MapState[InternalRow, InternalRow] = handle.getMapState[InternalRow, InternalRow](
    KeptWindows.Variable,
    InternalRowEncoder.encoder(TimerTicks.schema),
    InternalRowEncoder.encoder(layout.schema),
    TTLConfig.NONE)
  private var corrections: LinkedHashMap[Long, Correction] = LinkedHashMap.empty

  private def entry(tick: Long): InternalRow = new GenericInternalRow(Array[Any](tick))

  def replace(w: WindowState): Unit = corrections(TimerTicks.of(w.end)) = Correction(w, removed = false)
  def remove(w: WindowState): Unit = corrections(TimerTicks.of(w.end)) = Correction(w, removed = true)

  /** The corrections so far, to return to if a replayed row is rejected. */
  def pendingCorrections(): LinkedHashMap[Long, Correction] = corrections.clone()
  def restoreCorrections(to: LinkedHashMap[Long, Correction]): Unit = corrections = to

  /** Stores the corrections of the batch, and adds what they change of the table to `out`. */
  def applyCorrections(key: InternalRow, changes: WindowChanges, out: ArrayBuffer[InternalRow]): Unit = {
    val taken = corrections
    // From here on, only what is stored is read.
    corrections = LinkedHashMap.empty
    // A window whose bounds change is deleted: a session may grow backwards and end where it did.
    for ((tick, Correction(w, removed)) <- taken; old <- get(tick)) {
      if (removed || old.start != w.start) out += changes.delete(key, old, closed = true)
      if (removed) delete(tick)
    }
    for ((tick, Correction(w, removed)) <- taken if !removed) {
      val old = get(tick).filter(_.start == w.start).map(_.state).orNull
      out += changes.last(key, w, old, closed = true)
      put(w)
    }
  }

  /** Stores a window; the first at a tick registers the timer. */
  def put(w: WindowState): Unit = {
    val tick = TimerTicks.of(w.end)
    if (!stored.containsKey(entry(tick))) handle.registerTimer(math.max(1L, tick + keepMicros / 1000))
    stored.updateValue(entry(tick), layout.encode(w))
  }

  def delete(tick: Long): Unit = stored.removeKey(entry(tick))

  /** The kept window that ends at a tick, as the batch's replays have left it. */
  def get(tick: Long): Option[WindowState] = corrections.get(tick) match {
    case Some(correction) => if (correction.removed) None else Some(correction.window)
    case None => Option(stored.getValue(entry(tick))).map(layout.decode)
  }

  /** All kept windows of the key, as the batch's replays have left them. */
  def all: Seq[WindowState] = {
    val unchanged = stored.values().map(r => layout.decode(r.copy()))
      .filterNot(w => corrections.contains(TimerTicks.of(w.end)))
    unchanged.toSeq ++ corrections.values.filterNot(_.removed).map(_.window)
  }

  /** The windows whose expiry the timer of a time announces; the first tick stands for all before it. */
  def due(timerMs: Long): Seq[WindowState] =
    if (timerMs == 1L) all else get(timerMs - keepMicros / 1000).toSeq
}

object KeptWindows {
  /** The state variable of kept windows. */
  val Variable = "kept"
}
