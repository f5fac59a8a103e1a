package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.keyfold.state.ChangeEmitter

/** A window by its bounds, in microseconds, and its state as it is stored. */
case class WindowState(start: Long, end: Long, state: InternalRow)

/**
 * Changes of the table rows of windows: their key is the user's key, then the window's bounds. `previous`:
 * changes carry the row before them, of which `old` is the state, or null; `closed`: that row was final.
 */
final class WindowChanges(live: ChangeEmitter, previous: Boolean) {
  private val bounds = new GenericInternalRow(2)
  private val joinedKey = new JoinedRow

  def upsert(key: InternalRow, w: WindowState, old: => InternalRow): InternalRow = {
    val before = rowBefore(key, w, old, closed = false)
    live.upsert(tableKey(key, w), live.read(w.state), before).copy()
  }

  /** The final row of a window, when it closes and when a replay corrects it. */
  def last(key: InternalRow, w: WindowState, old: => InternalRow, closed: Boolean): InternalRow = {
    val before = rowBefore(key, w, old, closed)
    live.last(tableKey(key, w), live.read(w.state), before).copy()
  }

  def delete(key: InternalRow, w: WindowState, closed: Boolean): InternalRow = {
    val before = rowBefore(key, w, w.state, closed)
    live.delete(tableKey(key, w), before).copy()
  }

  private def rowBefore(
      key: InternalRow, w: WindowState, old: => InternalRow, closed: Boolean): InternalRow =
    if (!previous) null else live.before(tableKey(key, w), Option(old).map(live.read).orNull, closed)

  /** The row is reused. */
  private def tableKey(key: InternalRow, w: WindowState): InternalRow = {
    bounds.update(0, w.start)
    bounds.update(1, w.end)
    joinedKey(key, bounds)
  }
}
