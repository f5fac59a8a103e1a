package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RowError}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Running aggregates: one state and one table row per key. */
class RunningAggregateProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, ttlMs: Option[Long])
    extends TtlProcessor(fold, layout, settings, ttlMs) {
  private val seenAt = fold.state.indexWhere(_.name == InternalColumns.Seen)
  /** In a retracting stream: how many rows are left. */
  private val leftAt = fold.state.indexWhere(_.name == InternalColumns.Left)
  private val retracting = leftAt >= 0

  override def stateSchema: StructType = fold.schema
  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    Iterator.single(live.upsert(key, live.load(stored), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow =
    live.before(key, if (stored == null) null else live.read(stored))

  override def handleInputRows(
      key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(layout.sideOutput(r)))
    val old = state.get()
    val expired = old != null && ttlMs.isDefined && !old.isNullAt(seenAt) && over(old.getLong(seenAt), times)
    val b = if (old == null || expired) live.zero() else live.load(old)
    val batch = copies(rows)
    out.clear()
    val applied = if (layout.ordered) foldInOrder(b, batch) else each(batch)(live.merge(b, _))
    if (applied > 0 && retracting && b.getLong(leftAt) == 0) {
      if (old != null) { out += live.delete(key, before(key, old)).copy(); state.clear() }
    } else if (applied > 0) {
      if (ttlMs.isDefined) touch(b, times)
      change(key, old, expired, b, batch)
    }
    out.iterator
  }

  /**
   * Emits the change and stores the state. If the new row can't be computed, the batch's rows are rejected.
   */
  private def change(
      key: InternalRow, old: InternalRow, expired: Boolean, b: InternalRow,
      batch: Array[InternalRow]): Unit = {
    val previous = before(key, old)
    val upsert = try live.upsert(key, b, if (expired) null else previous) catch {
      case e: RowError =>
        batch.filter(_ != null).foreach(r => out += sideOutputRow(rejects.rejected(r, e)))
        // The rows stay in the state: they may be retracted later.
        if (retracting) {
          if (old != null) out += live.delete(key, previous).copy()
          state.update(live.stored(b))
        }
        return
    }
    if (expired) out += live.delete(key, previous).copy()
    out += upsert
    if (ttlMs.isDefined && old == null) getHandle.registerTimer(expiry(b))
    state.update(live.stored(b))
  }

  /** For how many rows `act` succeeded; the others are removed from the batch. */
  private def each(batch: Array[InternalRow])(act: InternalRow => Unit): Int = batch.indices.count { i =>
    val succeeded = tried(batch(i))(act(batch(i)))
    if (!succeeded) batch(i) = null
    succeeded
  }

  private def foldInOrder(b: InternalRow, batch: Array[InternalRow]): Int = {
    inOrder(batch)
    val old = live.renew(b)
    val applied = each(batch)(live.update(b, _))
    live.settle(b, old)
    applied
  }

  /**
   * A row without an event time counts as seen now, and so does every row by processing time; before the
   * first watermark there is no now.
   */
  private def touch(b: InternalRow, times: TimerValues): Unit = {
    val at = now(times)
    if (processingTime || (b.isNullAt(seenAt) && at > 0)) b match {
      case u: UnsafeRow => u.setNotNullAt(seenAt); u.setLong(seenAt, at)
      case g => g.update(seenAt, at)
    }
  }

  /** When the key expires; at the first watermark, if it has not been seen at any time yet. */
  private def expiry(b: InternalRow): Long = if (b.isNullAt(seenAt)) 1L else expiry(b.getLong(seenAt))

  override def handleExpiredTimer(
      key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val old = state.get()
    if (old == null) return Iterator.empty
    val b = live.load(old)
    if (b.isNullAt(seenAt)) { touch(b, times); state.update(live.stored(b)) }
    expire(key, expiry(b), times)
  }
}
