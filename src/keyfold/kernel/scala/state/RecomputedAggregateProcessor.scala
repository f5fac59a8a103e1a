package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Aggregates that are folded anew from the rows that are left, since they can't give back. */
class RecomputedAggregateProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, kept: Seq[Attribute], weightAt: Int) extends RetractableRowsProcessor(fold, arriving, keeping, kept, weightAt, None) {
  private def folded(rows: ArrayBuffer[InternalRow]): InternalRow = { val b = live.zero(); rows.foreach(live.update(b, _)); b }

  override protected def say(key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow], mine: Array[(InternalRow, InternalRow)]): ArrayBuffer[InternalRow] = {
    val was = if (old.isEmpty) null else live.before(key, folded(old))
    val (b, left) = (live.zero(), new ArrayBuffer[InternalRow](all.length))
    val wrong = new java.util.IdentityHashMap[InternalRow, RowError]
    // A row that throws leaves no trace.
    all.foreach(e => try { live.update(b, e); left += e } catch { case t: RowError => wrong.put(e, t) })
    mine.foreach { case (row, e) => if (wrong.containsKey(e)) out += sideOutputRow(rejects.rejected(row, wrong.get(e))) }
    if (left.isEmpty) { if (old.nonEmpty) out += live.delete(key, was).copy(); left }
    else try { out += live.upsert(key, b, was).copy(); left } catch {
      // What is taken back later must be there, shown or not.
      case t: RowError => refused(mine.map(_._1), t); if (old.nonEmpty) out += live.delete(key, was).copy(); left
    }
  }

  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.single(live.upsert(key, folded(packing.unpack(stored, 1)), null))
  override protected def before(key: InternalRow, stored: InternalRow): InternalRow = live.before(key, folded(packing.unpack(stored, 1)))
}
