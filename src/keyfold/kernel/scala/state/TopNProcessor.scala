package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Which rows of a key a table shows: the first `n` in an order, or without an order the newest. */
case class TopN(n: Int, orders: Seq[SortOrder])

/** Whole rows per key, the first so many in an order; each has its rank as the last part of its key, unless it is the only one there can be. */
class TopNProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, kept: Seq[Attribute], weightAt: Int, ttlMs: Option[Long], ranking: TopN)
    extends RetractableRowsProcessor(fold, arriving, keeping, kept, weightAt, ttlMs) {
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
