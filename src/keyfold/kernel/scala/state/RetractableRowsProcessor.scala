package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.streaming._

/** A row as it arrived, and as it is kept. */
case class ArrivedRow(row: InternalRow, kept: InternalRow)

/**
 * Tables that keep the rows of a key: because they show rows, or because rows may be retracted from an
 * aggregate that can't be inverted. A retraction, a row whose weight is negative, removes the row with its
 * id; one without an id removes a row that is equal to it. A batch costs as much as the key keeps.
 */
abstract class RetractableRowsProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, kept: Seq[Attribute],
    retraction: RetractionLayout, ttlMs: Option[Long])
    extends RetainedRowsProcessor(fold, layout, settings, kept, ttlMs) {
  override protected val stateLayout: RetainedRowsLayout =
    RetainedRowsLayout(RetainedRowsProcessor.schema(kept))
  override protected def at(e: InternalRow): Long = e.getLong(0)
  protected val retracting: Boolean = retraction.retracting

  /** Emits the changes from `old` to `all`, the rows of the key; returns the rows to keep. */
  protected def emit(
      key: InternalRow, old: ArrayBuffer[InternalRow], all: ArrayBuffer[InternalRow],
      arrived: Array[ArrivedRow]): ArrayBuffer[InternalRow]

  override def handleInputRows(
      key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => sideOutputRow(layout.sideOutput(r)))
    val stored = state.get()
    val batch = copies(rows)
    inOrder(batch)
    out.clear()
    val expired = stored != null && over(stateLayout.seenMs(stored), times)
    if (expired) out ++= deletes(key, stored)
    val old = if (stored == null || expired) new ArrayBuffer[InternalRow](0) else stateLayout.rows(stored)
    val (all, arrived) = if (retracting) applied(old, batch) else added(old, batch)
    val left = emit(key, old, all, arrived)
    if (left.nonEmpty) store(stored, expired, time(batch.last), left, times)
    else if (stored != null) state.clear()
    out.iterator
  }

  /** The rows with those of a batch, which are also returned alone. */
  private def added(
      old: ArrayBuffer[InternalRow],
      rows: Array[InternalRow]): (ArrayBuffer[InternalRow], Array[ArrivedRow]) = {
    val arrived = rows.map(r => ArrivedRow(r, keeper(r).copy()))
    (merge(old, arrived.map(_.kept)), arrived)
  }

  /** As `added`, where some of the batch's rows are retractions. */
  private def applied(
      old: ArrayBuffer[InternalRow],
      batch: Array[InternalRow]): (ArrayBuffer[InternalRow], Array[ArrivedRow]) = {
    val changes = new RowChanges(batch.filter(retraction.hasId), retraction)
    val (rows, retractions) = batch.filter(r => !retraction.hasId(r) || changes.isLeft(r))
      .partition(retraction.weight(_) > 0)
    val (all, arrived) = added(untouched(old, changes), rows)
    (without(all, retractions), arrived)
  }

  /** The rows without those that the batch replaces or removes by id. */
  private def untouched(old: ArrayBuffer[InternalRow], changes: RowChanges): ArrayBuffer[InternalRow] =
    if (changes.isEmpty) old else {
      val (touched, left) = old.partition(e => changes.touches(retraction.retainedId(e)))
      val known = touched.iterator.map(retraction.retainedId).toSet
      changes.retractions.foreach { case (id, r) => if (!known(id)) reportUnknown(r) }
      left
    }

  /**
   * The rows without those that are retracted by equal rows, which may be of this batch: a row and its
   * retraction arrive in any order.
   */
  private def without(
      all: ArrayBuffer[InternalRow], retractions: Array[InternalRow]): ArrayBuffer[InternalRow] =
    if (retractions.isEmpty) all else {
      val pending = new java.util.HashMap[InternalRow, ArrayBuffer[InternalRow]]
      def equalTo(r: InternalRow) =
        pending.computeIfAbsent(keeper(r).copy(), _ => new ArrayBuffer[InternalRow](1))
      retractions.foreach(r => equalTo(r) += r)
      val left = all.filter { e =>
        val equal = pending.get(e)
        if (equal != null && equal.nonEmpty) { equal.remove(equal.length - 1); false } else true
      }
      pending.values().forEach(_.foreach(reportUnknown))
      left
    }

  private def reportUnknown(row: InternalRow): Unit = if (!retraction.ignoresUnknown)
    out += sideOutputRow(rejects.rejected(row, "retracts a row that was never added"))
}
