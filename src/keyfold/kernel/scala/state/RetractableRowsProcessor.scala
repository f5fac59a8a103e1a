package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Tables that keep the rows of a key themselves: because it is rows that they show, or because rows may be taken back from an aggregate that can't give back. A row
 * that is taken back (its weight, at `weightAt`, is below zero) is one that is equal to it. Each batch costs what the key keeps.
 */
abstract class RetractableRowsProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, kept: Seq[Attribute], weightAt: Int, ttlMs: Option[Long])
    extends RetainedRowsProcessor(fold, arriving, keeping, kept, ttlMs) {
  override protected val packing: StructPacking = StructPacking(RetainedRowsProcessor.schema(kept))
  override protected def at(e: InternalRow): Long = e.getLong(0)
  override def stateSchema: StructType = new StructType().add("seen", LongType).add("rows", packing.dataType)
  protected val retracting: Boolean = weightAt >= 0

  /** Says what changed; what is kept from now on, or null if nothing can be. `mine` are the rows that came, as they came and as they are kept. */
  protected def say(key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow], mine: Array[(InternalRow, InternalRow)]): ArrayBuffer[InternalRow]

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(arriving.sideOutput(r)))
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
    going.values().forEach(_.foreach(r => out += sideOutputRow(rejects.rejected("takes back a row that is not there", rejects.json(r)))))
    left
  }
}
