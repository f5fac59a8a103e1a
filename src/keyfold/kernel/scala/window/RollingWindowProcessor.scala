package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RowError}
import org.apache.spark.sql.keyfold.rows.LatenessCheck
import org.apache.spark.sql.keyfold.state.{RetainedRowsProcessor, ShuffledRowLayout, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.StructPacking
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Moving aggregates, one row per key: over the rows of the last while up to the newest, or over the last so many. What is kept of a key is what the aggregate
 * covers: rows (their time and the columns that the fold reads), or panes, and it is folded anew after each batch. `kept` are the columns of a kept row; the fold
 * reads those.
 */
class RollingWindowProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, what: RollingWindow, kept: Seq[Attribute], ttlMs: Option[Long]) extends RetainedRowsProcessor(fold, arriving, keeping, kept, ttlMs) {
  private val inPanes = what.pane.isDefined
  private val startAt = fold.state.indexWhere(_.name == InternalColumns.Start)
  override protected val packing: StructPacking = StructPacking(if (inPanes) fold.schema else RetainedRowsProcessor.schema(kept))

  override def stateSchema: StructType = new StructType().add("seen", LongType).add(if (inPanes) "panes" else "rows", packing.dataType)

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => rejected(r.getUTF8String(arriving.bad)))
    val stored = state.get()
    val expired = stored != null && over(stored.getLong(0), times)
    val old = if (stored == null || expired) new ArrayBuffer[InternalRow](0) else packing.unpack(stored, 1)
    val batch = copies(rows)
    inOrder(batch)
    out.clear()
    val (fresh, late) = batch.partition(r => !isLate(old, time(r)))
    late.foreach(r => out += rejected(rejects.late(r, time(r), LatenessCheck.Unknown, 1, Seq(range(old)), 0L)))
    val was = if (fresh.isEmpty) null else before(key, stored)
    val (all, change) = if (fresh.isEmpty) (old, null) else if (inPanes) panes(key, old, fresh, if (expired) null else was) else whole(key, old, fresh, if (expired) null else was)
    if (change != null) {
      if (expired) out += live.delete(key, was).copy()
      out += change
      store(stored, expired, time(fresh.last), all, times)
    }
    out.iterator
  }

  override protected def at(e: InternalRow): Long = e.getLong(if (inPanes) startAt else 0)
  private def newest(all: ArrayBuffer[InternalRow]): Long = at(all.last)
  private def pane(t: Long): Long = Math.floorDiv(t, what.pane.get) * what.pane.get

  /** What is covered begins after this time; for panes, at it. */
  private def edge(newest: Long): Long = what.span.fold(Long.MinValue)(s => if (inPanes) newest + what.pane.get - s else newest - s)
  private def covered(newest: Long, t: Long): Boolean = if (inPanes) pane(t) >= edge(newest) else t > edge(newest)

  /** A row is late if what the key has already seen leaves no place for it; rows that came together are taken in order. */
  private def isLate(old: ArrayBuffer[InternalRow], t: Long): Boolean =
    old.nonEmpty && (what.rows match { case Some(n) => old.length >= n && t < at(old.head); case None => !covered(newest(old), t) })
  private def range(old: ArrayBuffer[InternalRow]): (Long, Long) = (if (what.rows.isDefined) at(old.head) else edge(newest(old)), newest(old))

  private def whole(key: InternalRow, old: ArrayBuffer[InternalRow], batch: Array[InternalRow], was: InternalRow): (ArrayBuffer[InternalRow], InternalRow) = {
    var mine = batch.map(r => (r, keeper(r).copy(): InternalRow))
    while (mine.nonEmpty) {
      val all = covered(merge(old, mine.map(_._2)))
      val b = live.zero()
      val wrong = new java.util.IdentityHashMap[InternalRow, RowError]
      // A row that throws leaves no trace, so that one pass finds them all.
      all.foreach(e => try live.update(b, e) catch { case t: RowError => wrong.put(e, t) })
      val (bad, fine) = mine.partition(m => wrong.containsKey(m._2))
      if (wrong.isEmpty) try return (all, live.upsert(key, b, was)) catch { case t: RowError => refused(mine.map(_._1), t); return (old, null) }
      // Old ones could be folded before: the new ones are the reason.
      if (bad.length < wrong.size) { refused(mine.map(_._1), wrong.values().iterator().next()); return (old, null) }
      bad.foreach(m => out += rejected(rejects.of(m._1, wrong.get(m._2))))
      mine = fine
    }
    (old, null)
  }

  private def covered(all: ArrayBuffer[InternalRow]): ArrayBuffer[InternalRow] = {
    val first = what.rows match { case Some(n) => all.length - n; case None => val e = edge(newest(all)); all.indexWhere(at(_) > e) }
    all.drop(first)
  }

  private def panes(key: InternalRow, old: ArrayBuffer[InternalRow], batch: Array[InternalRow], was: InternalRow): (ArrayBuffer[InternalRow], InternalRow) = {
    val all = old.clone()
    val folded = new ArrayBuffer[InternalRow](batch.length)
    batch.foreach { r =>
      val p = pane(time(r))
      var i = all.length
      while (i > 0 && at(all(i - 1)) > p) i -= 1
      val known = i > 0 && at(all(i - 1)) == p
      val b = if (known) live.load(all(i - 1)) else live.zero()
      val typed = live.renew(b)
      if (tried(r)(live.update(b, r))) {
        live.settle(b, typed)
        if (known) all(i - 1) = live.stored(b) else all.insert(i, live.stored(b))
        folded += r
      }
    }
    if (folded.isEmpty) return (old, null)
    val e = edge(newest(all))
    val left = all.filter(at(_) >= e)
    try (left, live.upsert(key, together(left), was)) catch {
      case e: RowError => refused(folded, e); (old, null)
    }
  }

  private def together(panes: ArrayBuffer[InternalRow]): InternalRow = {
    val b = live.load(panes.head)
    panes.tail.foreach(mergeInto(b, _))
    b
  }

  private def folded(stored: InternalRow): InternalRow = {
    val all = packing.unpack(stored, 1)
    if (inPanes) together(all) else { val z = live.zero(); all.foreach(live.update(z, _)); z }
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.single(live.upsert(key, folded(stored), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = live.before(key, if (stored == null) null else folded(stored))
}
