package org.apache.spark.sql.keyfold.window

import java.util.IdentityHashMap

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RowError}
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.keyfold.state.{RetainedRowsLayout, RetainedRowsProcessor, ShuffledRowLayout}
import org.apache.spark.sql.streaming._

/**
 * Rolling and last-N windows, one table row per key: over a trailing time span that ends at the newest row,
 * or over the last N rows. The state of a key is the content of its window: rows (their time and the columns
 * that the fold reads) or panes, which are folded from the start after each batch. `retained` are the columns
 * of a retained row.
 */
class RollingWindowProcessor(
    fold: AggregateFold,
    layout: ShuffledRowLayout,
    settings: SideOutputSettings,
    window: RollingWindow,
    retained: Seq[Attribute],
    ttlMs: Option[Long]) extends RetainedRowsProcessor(fold, layout, settings, retained, ttlMs) {
  /** The content of a window and the change that it emits; no change if no row was folded. */
  private type Folded = (ArrayBuffer[InternalRow], InternalRow)

  private val inPanes = window.pane.isDefined
  private val startAt = fold.state.indexWhere(_.name == InternalColumns.Start)
  override protected val stateLayout: RetainedRowsLayout =
    if (inPanes) RetainedRowsLayout(fold.schema, "panes")
    else RetainedRowsLayout(RetainedRowsProcessor.schema(retained))

  override def handleInputRows(
      key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(layout.sideOutput(r)))
    val stored = state.get()
    val expired = stored != null && over(stateLayout.seenMs(stored), times)
    val old = if (stored == null || expired) new ArrayBuffer[InternalRow](0) else stateLayout.rows(stored)
    val batch = copies(rows)
    inOrder(batch)
    out.clear()
    val (fresh, late) = batch.partition(r => !isLate(old, time(r)))
    late.foreach { r =>
      val side = rejects.late(r, time(r), EventTime.NoWatermark, 1, Seq(bounds(old)), 0L)
      out += sideOutputRow(side)
    }
    if (fresh.nonEmpty) {
      val previous = before(key, stored)
      val base = if (expired) null else previous
      val (all, change) = if (inPanes) foldPanes(key, old, fresh, base) else foldRows(key, old, fresh, base)
      if (change != null) {
        if (expired) out += live.delete(key, previous).copy()
        out += change
        store(stored, expired, time(fresh.last), all, times)
      }
    }
    out.iterator
  }

  override protected def at(e: InternalRow): Long = e.getLong(if (inPanes) startAt else 0)
  private def newest(all: ArrayBuffer[InternalRow]): Long = at(all.last)
  private def pane(t: Long): Long = Math.floorDiv(t, window.pane.get) * window.pane.get

  /** Where the window of a newest time starts: after this time; in panes, at it. */
  private def lowerBound(newest: Long): Long =
    window.span.fold(Long.MinValue)(s => if (inPanes) newest + window.pane.get - s else newest - s)
  private def contains(newest: Long, t: Long): Boolean =
    if (inPanes) pane(t) >= lowerBound(newest) else t > lowerBound(newest)

  /**
   * A row is late if it is before the window as earlier batches left it; rows of one batch are not late for
   * one another.
   */
  private def isLate(old: ArrayBuffer[InternalRow], t: Long): Boolean = old.nonEmpty && (window.rows match {
    case Some(n) => old.length >= n && t < at(old.head)
    case None => !contains(newest(old), t)
  })
  private def bounds(old: ArrayBuffer[InternalRow]): (Long, Long) =
    (if (window.rows.isDefined) at(old.head) else lowerBound(newest(old)), newest(old))

  private def foldRows(
      key: InternalRow, old: ArrayBuffer[InternalRow], batch: Array[InternalRow],
      previous: InternalRow): Folded = {
    var fresh = batch.map(r => (r, keeper(r).copy(): InternalRow))
    while (fresh.nonEmpty) {
      val all = trimmed(merge(old, fresh.map(_._2)))
      val b = live.zero()
      val errors = new IdentityHashMap[InternalRow, RowError]
      // A row that throws leaves the buffer as it was, so that one pass finds all such rows.
      all.foreach(e => try live.update(b, e) catch { case t: RowError => errors.put(e, t) })
      if (errors.isEmpty) try return (all, live.upsert(key, b, previous)) catch {
        case t: RowError =>
          refused(fresh.map(_._1), t)
          return (old, null)
      }
      val (bad, good) = fresh.partition(f => errors.containsKey(f._2))
      // A retained row could be folded before, so that the new rows are the cause.
      if (bad.length < errors.size) {
        refused(fresh.map(_._1), errors.values().iterator().next())
        return (old, null)
      }
      bad.foreach(f => out += sideOutputRow(rejects.rejected(f._1, errors.get(f._2))))
      fresh = good
    }
    (old, null)
  }

  /** The rows that are in the window of the newest. */
  private def trimmed(all: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val first = window.rows match {
      case Some(n) => all.length - n
      case None =>
        val bound = lowerBound(newest(all))
        all.indexWhere(at(_) > bound)
    }
    all.drop(first)
  }

  private def foldPanes(
      key: InternalRow, old: ArrayBuffer[InternalRow], batch: Array[InternalRow],
      previous: InternalRow): Folded = {
    val all = old.clone()
    val folded = batch.filter(foldIntoPane(all, _))
    if (folded.isEmpty) return (old, null)
    val bound = lowerBound(newest(all))
    val current = all.filter(at(_) >= bound)
    try (current, live.upsert(key, mergedPanes(current), previous)) catch {
      case e: RowError =>
        refused(folded, e)
        (old, null)
    }
  }

  /** Folds a row into its pane, which is inserted in order if it is new; false if the row is rejected. */
  private def foldIntoPane(panes: ArrayBuffer[InternalRow], row: InternalRow): Boolean = {
    val p = pane(time(row))
    var i = panes.length
    while (i > 0 && at(panes(i - 1)) > p) i -= 1
    val known = i > 0 && at(panes(i - 1)) == p
    val b = if (known) live.load(panes(i - 1)) else live.zero()
    val typed = live.renew(b)
    val folded = tried(row)(live.update(b, row))
    if (folded) {
      live.settle(b, typed)
      if (known) panes(i - 1) = live.stored(b) else panes.insert(i, live.stored(b))
    }
    folded
  }

  private def mergedPanes(panes: ArrayBuffer[InternalRow]): InternalRow = {
    val b = live.load(panes.head)
    panes.tail.foreach(mergeInto(b, _))
    b
  }

  private def aggregate(stored: InternalRow): InternalRow = {
    val all = stateLayout.rows(stored)
    if (inPanes) mergedPanes(all)
    else {
      val b = live.zero()
      all.foreach(live.update(b, _))
      b
    }
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    Iterator.single(live.upsert(key, aggregate(stored), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow =
    live.before(key, if (stored == null) null else aggregate(stored))
}
