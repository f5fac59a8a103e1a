package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Rows that are kept of a key, each its time and the columns `kept`, in order of time and then of arrival; packed into one value, `seen` beside them for TTL. */
abstract class RetainedRowsProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, kept: Seq[Attribute], ttlMs: Option[Long]) extends TtlProcessor(fold, arriving, keeping, ttlMs) {
  protected def packing: StructPacking
  protected def at(e: InternalRow): Long

  @transient protected lazy val keeper: UnsafeProjection = {
    // The columns as they come through the shuffle, behind the time of the stamp.
    val time = GetStructField(arriving.input(arriving.stamp), 0)
    UnsafeProjection.create(Coalesce(Seq(UnixMicros(time), Literal(0L))) +: arriving.input.slice(arriving.prefix, arriving.prefix + kept.length - 1), arriving.input)
  }

  protected def merge(old: ArrayBuffer[InternalRow], fresh: Array[InternalRow]): ArrayBuffer[InternalRow] = RetainedRowsProcessor.merged(old, fresh)(at)

  /** Puts the rows back, and when the key was last seen; the timer waits from the first time on. */
  protected def store(stored: InternalRow, expired: Boolean, newest: Long, all: ArrayBuffer[InternalRow], times: TimerValues): Unit = {
    val before = if (stored == null || expired) Long.MinValue else stored.getLong(0)
    val seen = if (arrival) now(times) else math.max(before, Math.floorDiv(newest, 1000L))
    if (ttlMs.isDefined && stored == null) getHandle.registerTimer(due(seen))
    state.update(new GenericInternalRow(Array[Any](seen, packing.pack(all))))
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val stored = state.get()
    if (stored == null) Iterator.empty else expire(key, due(stored.getLong(0)), times)
  }

  protected def refused(rows: Iterable[InternalRow], why: RowError): Unit = rows.foreach(r => out += sideOutputRow(rejects.rejected(r, why)))
}

object RetainedRowsProcessor {
  def schema(kept: Seq[Attribute]): StructType = StructType(kept.map(a => StructField(a.name, a.dataType)))

  /** Both in order of time, what came first before what came later. */
  def merged(old: ArrayBuffer[InternalRow], fresh: Array[InternalRow])(at: InternalRow => Long): ArrayBuffer[InternalRow] = {
    val all = new ArrayBuffer[InternalRow](old.length + fresh.length)
    var (i, j) = (0, 0)
    while (i < old.length || j < fresh.length)
      if (j >= fresh.length || (i < old.length && at(old(i)) <= at(fresh(j)))) { all += old(i); i += 1 } else { all += fresh(j); j += 1 }
    all
  }
}
