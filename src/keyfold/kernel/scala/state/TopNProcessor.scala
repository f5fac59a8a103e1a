package org.apache.spark.sql.keyfold.state

import java.util.{Collections, IdentityHashMap}

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings

/** Which rows of a key a table shows: the first `n` in an order, or without an order the newest. */
case class TopN(n: Int, orders: Seq[SortOrder])

/**
 * The first rows of each key in an order. A row's rank is the last column of its key, unless the table
 * shows the newest row.
 */
class TopNProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, kept: Seq[Attribute],
    retraction: RetractionLayout, ttlMs: Option[Long], top: TopN)
    extends RetractableRowsProcessor(fold, layout, settings, kept, retraction, ttlMs) {
  private val newest = top.orders.isEmpty
  @transient private lazy val order = RowOrdering.create(top.orders, kept)
  @transient private lazy val rank = new GenericInternalRow(1)
  @transient private lazy val keyAndRank = new JoinedRow

  private def first(rows: ArrayBuffer[InternalRow]): Array[InternalRow] =
    if (newest) rows.lastOption.toArray
    else { val all = rows.toArray; java.util.Arrays.sort(all, order); all.take(top.n) }
  private def keyOf(key: InternalRow, i: Int): InternalRow =
    if (newest) key else { rank.update(0, i + 1); keyAndRank(key, rank) }

  override protected def emit(
      key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow],
      arrived: Array[ArrivedRow]): ArrayBuffer[InternalRow] = {
    val (before, after) = (first(old), first(all))
    (0 until math.max(before.length, after.length)).foreach { i =>
      val previous = if (i < before.length) live.before(keyOf(key, i), before(i)) else null
      if (i >= after.length) out += live.delete(keyOf(key, i), previous).copy()
      else if (i >= before.length || !sameContent(before(i), after(i)))
        out += live.upsert(keyOf(key, i), after(i), previous).copy()
    }
    // Without retractions, a row that is not among the first now never will be.
    if (retracting) all else all.filter(identical(after))
  }

  @transient private lazy val content =
    UnsafeProjection.create(kept.filterNot(_.name == InternalColumns.RowId), kept)
  /** Whether readers see no difference: the rows are equal, but for their ids. */
  private def sameContent(a: InternalRow, b: InternalRow): Boolean =
    a == b || (retraction.hasIds && content(a).copy() == content(b))

  private def identical(rows: Array[InternalRow]): InternalRow => Boolean = {
    val set = Collections.newSetFromMap(new IdentityHashMap[InternalRow, java.lang.Boolean])
    rows.foreach(set.add)
    set.contains
  }

  private def ranked(stored: InternalRow): Iterator[(InternalRow, Int)] =
    first(stateLayout.rows(stored)).iterator.zipWithIndex

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    ranked(stored).map { case (row, i) => live.upsert(keyOf(key, i), row, null) }
  override protected def deletes(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    ranked(stored).map { case (row, i) =>
      val k = keyOf(key, i)
      live.delete(k, live.before(k, row)).copy()
    }.toArray[InternalRow].iterator
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = null
}
