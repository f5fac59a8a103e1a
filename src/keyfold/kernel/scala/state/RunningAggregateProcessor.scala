package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RowError}
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Running aggregates: one state and one row per key. */
class RunningAggregateProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, ttlMs: Option[Long]) extends TtlProcessor(fold, arriving, keeping, ttlMs) {
  private val seen = fold.state.indexWhere(_.name == InternalColumns.Seen)
  /** Where rows may be taken back: how many are left. */
  private val left = fold.state.indexWhere(_.name == InternalColumns.Left)

  override def stateSchema: StructType = fold.schema
  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.single(live.upsert(key, live.load(stored), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = live.before(key, if (stored == null) null else live.read(stored))

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(arriving.sideOutput(r)))
    val old = state.get()
    val expired = old != null && ttlMs.isDefined && !old.isNullAt(seen) && over(old.getLong(seen), times)
    val b = if (old == null || expired) live.zero() else live.load(old)
    val batch = copies(rows)
    out.clear()
    val applied = if (arriving.ordered) foldInOrder(b, batch) else each(batch)(live.merge(b, _))
    if (applied > 0 && left >= 0 && b.getLong(left) == 0) {
      if (old != null) { out += live.delete(key, before(key, old)).copy(); state.clear() }
    } else if (applied > 0) {
      if (ttlMs.isDefined) touch(b, times)
      val was = before(key, old)
      val change = try live.upsert(key, b, if (expired) null else was) catch {
        case e: RowError => batch.filter(_ != null).foreach(r => out += sideOutputRow(rejects.rejected(r, e)))
        // What is taken back later must be there, shown or not.
        if (left >= 0) { if (old != null) out += live.delete(key, was).copy(); state.update(live.stored(b)) }
        null
      }
      if (change != null) {
        if (expired) out += live.delete(key, was).copy()
        out += change
        if (ttlMs.isDefined && old == null) getHandle.registerTimer(due(b))
        state.update(live.stored(b))
      }
    }
    out.iterator
  }

  /** For how many rows it worked; one on which it throws leaves the batch. */
  private def each(batch: Array[InternalRow])(act: InternalRow => Unit): Int =
    batch.indices.count { i => val fine = tried(batch(i))(act(batch(i))); if (!fine) batch(i) = null; fine }

  private def foldInOrder(b: InternalRow, batch: Array[InternalRow]): Int = {
    inOrder(batch)
    val old = live.renew(b)
    val applied = each(batch)(live.update(b, _))
    live.settle(b, old)
    applied
  }

  /** A row without a time was seen now; with processing time every row is. Before the first watermark there is no now. */
  private def touch(b: InternalRow, times: TimerValues): Unit = {
    val at = now(times)
    if (arrival || (b.isNullAt(seen) && at > 0)) b match {
      case u: UnsafeRow => u.setNotNullAt(seen); u.setLong(seen, at)
      case g => g.update(seen, at)
    }
  }

  /** When the key may go; at the first watermark, if it has not been seen at any time yet. */
  private def due(b: InternalRow): Long = if (b.isNullAt(seen)) 1L else due(b.getLong(seen))

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val old = state.get()
    if (old == null) return Iterator.empty
    val b = live.load(old)
    if (b.isNullAt(seen)) { touch(b, times); state.update(live.stored(b)) }
    expire(key, due(b), times)
  }
}
