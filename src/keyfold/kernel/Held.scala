package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Which rows of a key a table shows: the first `n` in an order, or without an order the newest. */
case class Ranking(n: Int, orders: Seq[SortOrder])

/**
 * Tables that keep the rows of a key themselves: because it is rows that they show, or because rows may be taken back from an aggregate that can't give back. A row
 * that is taken back (its weight, at `weightAt`, is below zero) is one that is equal to it. Each batch costs what the key keeps.
 */
abstract class Held(fold: Fold, arriving: Arriving, keeping: Keeping, kept: Seq[Attribute], weightAt: Int, ttlMs: Option[Long])
    extends KeptRows(fold, arriving, keeping, kept, ttlMs) {
  override protected val packing: Structs = Structs(KeptRows.schema(kept))
  override protected def at(e: InternalRow): Long = e.getLong(0)
  override def stateSchema: StructType = new StructType().add("seen", LongType).add("rows", packing.dataType)
  protected val retracting: Boolean = weightAt >= 0

  /** Says what changed; what is kept from now on, or null if nothing can be. `mine` are the rows that came, as they came and as they are kept. */
  protected def say(key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow], mine: Array[(InternalRow, InternalRow)]): ArrayBuffer[InternalRow]

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => rejected(r.getUTF8String(arriving.bad)))
    val stored = state.get()
    val batch = copies(rows)
    inOrder(batch)
    out.clear()
    val expired = stored != null && over(stored.getLong(0), times)
    if (expired) out ++= forgotten(key, stored)
    val old = if (stored == null || expired) new ArrayBuffer[InternalRow](0) else packing.unpack(stored, 1)
    val (came, gone) = if (retracting) batch.partition(_.getInt(weightAt) > 0) else (batch, Array.empty[InternalRow])
    val mine = came.map(r => (r, keeper(r).copy(): InternalRow))
    val left = say(key, old, without(merge(old, mine.map(_._2)), gone), mine)
    if (left == null) { if (expired) out.clear() }
    else if (left.isEmpty) { if (stored != null) state.clear() }
    else store(stored, expired, time(batch.last), left, times)
    out.iterator
  }

  /** Rows that come and go in one batch may come in any order, so that what goes is looked for among all. */
  private def without(all: ArrayBuffer[InternalRow], gone: Array[InternalRow]): ArrayBuffer[InternalRow] = if (gone.isEmpty) all else {
    val going = new java.util.HashMap[InternalRow, ArrayBuffer[InternalRow]]
    gone.foreach(r => going.computeIfAbsent(keeper(r).copy(), _ => new ArrayBuffer[InternalRow](1)) += r)
    val left = all.filter { e =>
      val same = going.get(e)
      if (same != null && same.nonEmpty) { same.remove(same.length - 1); false } else true
    }
    going.values().forEach(_.foreach(r => out += rejected(rejects.of("takes back a row that is not there", rejects.text(r)))))
    left
  }
}

/** Aggregates that are folded anew from the rows that are left, since they can't give back. */
class Refolded(fold: Fold, arriving: Arriving, keeping: Keeping, kept: Seq[Attribute], weightAt: Int) extends Held(fold, arriving, keeping, kept, weightAt, None) {
  private def folded(rows: ArrayBuffer[InternalRow]): InternalRow = { val b = live.zero(); rows.foreach(live.update(b, _)); b }

  override protected def say(key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow], mine: Array[(InternalRow, InternalRow)]): ArrayBuffer[InternalRow] = {
    val was = if (old.isEmpty) null else live.before(key, folded(old))
    val (b, left) = (live.zero(), new ArrayBuffer[InternalRow](all.length))
    val wrong = new java.util.IdentityHashMap[InternalRow, RowError]
    // A row that throws leaves no trace.
    all.foreach(e => try { live.update(b, e); left += e } catch { case t: RowError => wrong.put(e, t) })
    mine.foreach { case (row, e) => if (wrong.containsKey(e)) out += rejected(rejects.of(row, wrong.get(e))) }
    if (left.isEmpty) { if (old.nonEmpty) out += live.delete(key, was).copy(); left }
    else try { out += live.upsert(key, b, was).copy(); left } catch {
      // What is taken back later must be there, shown or not.
      case t: RowError => refused(mine.map(_._1), t); if (old.nonEmpty) out += live.delete(key, was).copy(); left
    }
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.single(live.upsert(key, folded(packing.unpack(stored, 1)), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = live.before(key, folded(packing.unpack(stored, 1)))
}

/** Whole rows per key, the first so many in an order; each has its rank as the last part of its key, unless it is the only one there can be. */
class Ranked(fold: Fold, arriving: Arriving, keeping: Keeping, kept: Seq[Attribute], weightAt: Int, ttlMs: Option[Long], ranking: Ranking)
    extends Held(fold, arriving, keeping, kept, weightAt, ttlMs) {
  private val newest = ranking.orders.isEmpty
  @transient private lazy val order = RowOrdering.create(ranking.orders, kept)
  @transient private lazy val rank = new GenericInternalRow(1)
  @transient private lazy val whole = new JoinedRow

  private def first(rows: ArrayBuffer[InternalRow]): Array[InternalRow] =
    if (newest) rows.lastOption.toArray else { val all = rows.toArray; java.util.Arrays.sort(all, order); all.take(ranking.n) }
  private def keyOf(key: InternalRow, i: Int): InternalRow = if (newest) key else { rank.update(0, i + 1); whole(key, rank) }

  override protected def say(key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow], mine: Array[(InternalRow, InternalRow)]): ArrayBuffer[InternalRow] = {
    val (were, are) = (first(old), first(all))
    (0 until math.max(were.length, are.length)).foreach { i =>
      val was = if (i < were.length) live.before(keyOf(key, i), were(i)) else null
      if (i >= are.length) out += live.delete(keyOf(key, i), was).copy()
      else if (i >= were.length || were(i) != are(i)) out += live.upsert(keyOf(key, i), are(i), was).copy()
    }
    // What can't be taken back, and is not among the first, never will be.
    if (retracting) all else { val mine = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap[InternalRow, java.lang.Boolean]); are.foreach(mine.add); all.filter(mine.contains) }
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    first(packing.unpack(stored, 1)).iterator.zipWithIndex.map { case (r, i) => live.upsert(keyOf(key, i), r, null) }
  override protected def forgotten(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    first(packing.unpack(stored, 1)).zipWithIndex.map { case (r, i) => val k = keyOf(key, i); live.delete(k, live.before(k, r)).copy() }.iterator
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = null
}
