package org.apache.spark.sql.keyfold.state

import java.util.IdentityHashMap

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings

/** Aggregates that can't be inverted: they are folded again from the rows that a retraction leaves. */
class RecomputedAggregateProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, kept: Seq[Attribute],
    retraction: RetractionLayout)
    extends RetractableRowsProcessor(fold, layout, settings, kept, retraction, None) {
  private def folded(rows: ArrayBuffer[InternalRow]): InternalRow = {
    val b = live.zero()
    rows.foreach(live.update(b, _))
    b
  }

  override protected def emit(
      key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow],
      arrived: Array[ArrivedRow]): ArrayBuffer[InternalRow] = {
    val previous = if (old.isEmpty) null else live.before(key, folded(old))
    def delete(): Unit = if (old.nonEmpty) out += live.delete(key, previous).copy()
    val (b, left) = (live.zero(), new ArrayBuffer[InternalRow](all.length))
    val errors = new IdentityHashMap[InternalRow, RowError]
    // A row on which the fold throws leaves the buffer as it was.
    all.foreach(e => try { live.update(b, e); left += e } catch { case t: RowError => errors.put(e, t) })
    arrived.foreach { a =>
      if (errors.containsKey(a.kept)) out += sideOutputRow(rejects.rejected(a.row, errors.get(a.kept)))
    }
    if (left.isEmpty) delete()
    else try out += live.upsert(key, b, previous).copy() catch {
      // The rows stay in the state: they may be retracted later.
      case e: RowError => refused(arrived.map(_.row), e); delete()
    }
    left
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    Iterator.single(live.upsert(key, folded(stateLayout.rows(stored)), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow =
    live.before(key, folded(stateLayout.rows(stored)))
}
