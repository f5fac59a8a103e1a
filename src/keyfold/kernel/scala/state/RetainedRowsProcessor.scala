package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Keeps the rows of a key: their time and the columns `kept`, by event time and then arrival, packed into
 * one value beside the time at which the key was last seen, for TTL.
 */
abstract class RetainedRowsProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, kept: Seq[Attribute],
    ttlMs: Option[Long]) extends TtlProcessor(fold, layout, settings, ttlMs) {
  protected def stateLayout: RetainedRowsLayout
  override def stateSchema: StructType = stateLayout.schema
  protected def at(e: InternalRow): Long

  /** A row of the shuffle as it is kept: its time, then its columns. */
  @transient protected lazy val keeper: UnsafeProjection =
    UnsafeProjection.create(layout.micros +: layout.columns.take(kept.length - 1), layout.input)

  protected def merge(old: ArrayBuffer[InternalRow], fresh: Array[InternalRow]): ArrayBuffer[InternalRow] =
    RetainedRowsProcessor.merged(old, fresh)(at)

  /** Stores the rows and when the key was last seen. The first batch of a key sets its timer. */
  protected def store(
      stored: InternalRow, expired: Boolean, newest: Long, all: ArrayBuffer[InternalRow],
      times: TimerValues): Unit = {
    val before = if (stored == null || expired) Long.MinValue else stateLayout.seenMs(stored)
    val seen = if (processingTime) now(times) else math.max(before, Math.floorDiv(newest, 1000L))
    if (ttlMs.isDefined && stored == null) getHandle.registerTimer(expiry(seen))
    state.update(stateLayout.encode(seen, all))
  }

  override def handleExpiredTimer(
      key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val stored = state.get()
    if (stored == null) Iterator.empty else expire(key, expiry(stateLayout.seenMs(stored)), times)
  }

  /** Rejects rows for what a user's expression threw. */
  protected def refused(rows: Iterable[InternalRow], why: RowError): Unit =
    rows.foreach(r => out += sideOutputRow(rejects.rejected(r, why)))
}

object RetainedRowsProcessor {
  def schema(kept: Seq[Attribute]): StructType = StructType(kept.map(a => StructField(a.name, a.dataType)))

  /** Both sequences in the order of `time`; of equal times, old rows come before new ones. */
  def merged(old: ArrayBuffer[InternalRow], fresh: Array[InternalRow])(
      time: InternalRow => Long): ArrayBuffer[InternalRow] = {
    val all = new ArrayBuffer[InternalRow](old.length + fresh.length)
    var (i, j) = (0, 0)
    while (i < old.length || j < fresh.length)
      if (j >= fresh.length || (i < old.length && time(old(i)) <= time(fresh(j)))) { all += old(i); i += 1 }
      else { all += fresh(j); j += 1 }
    all
  }
}
