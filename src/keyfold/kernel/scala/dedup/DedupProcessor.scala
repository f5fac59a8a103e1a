package org.apache.spark.sql.keyfold.dedup

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.physical.{EventTime, OrderStamp}
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{BucketTimers, TimerTicks}
import org.apache.spark.sql.streaming._

/**
 * Drops duplicates: rows within ±`within` microseconds of a kept row with the same key. The state of a key
 * is the times of its kept rows, for as long as a row that is not late can be near one of them. Keys share
 * timer buckets: a timer costs more than a key, and all keys of a bucket in a batch share one.
 * `keepDuplicates`: duplicates go to the side output as they are; otherwise they are counted.
 */
class DedupProcessor(
    layout: DedupLayout,
    within: Long,
    step: String,
    keepDuplicates: Boolean,
    sideOutputs: SideOutputSettings) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var state: MapState[InternalRow, InternalRow] = _
  @transient private var timers: BucketTimers = _
  @transient private var processingTime: Boolean = _
  @transient private lazy val keptRow = UnsafeProjection.create(layout.keptRow, layout.input)
  @transient private lazy val passedOn = UnsafeProjection.create(layout.sideOutputRow, layout.input)
  @transient private lazy val keyOf = UnsafeProjection.create(layout.key, layout.input)
  @transient private lazy val sideOutputBuilder = new SideOutputBuilder(layout.row, layout.input, sideOutputs)
  @transient private lazy val out = new ArrayBuffer[InternalRow](4)
  @transient private lazy val sideOutput = new GenericInternalRow(1)
  @transient private lazy val withSideOutput = new JoinedRow
  @transient private lazy val sideOutputRow = {
    val attribute = SideOutput.attribute()
    UnsafeProjection.create(layout.sideOutputRow(attribute), layout.input :+ attribute)
  }

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getMapState[InternalRow, InternalRow]("state",
      InternalRowEncoder.encoder(layout.keySchema), InternalRowEncoder.encoder(KeptTimesLayout.schema),
      TTLConfig.NONE)
    timers = new BucketTimers(getHandle, layout.keySchema)
    processingTime = time == TimeMode.ProcessingTime()
  }

  override def handleInputRows(
      bucket: InternalRow,
      rows: Iterator[InternalRow],
      times: TimerValues): Iterator[InternalRow] = {
    if (bucket.anyNull) return rows.map(passedOn(_))
    val clock = EventTime.clock(times, processingTime)
    out.clear()
    val byKey = new java.util.LinkedHashMap[InternalRow, ArrayBuffer[InternalRow]]
    rows.foreach { r =>
      val key = keyOf(r)
      val known = byKey.get(key)
      if (known == null) byKey.put(key.copy(), ArrayBuffer(r.copy())) else known += r.copy()
    }
    val changed = new ArrayBuffer[InternalRow](byKey.size)
    var newest = EventTime.NoWatermark
    byKey.forEach { (key, batch) =>
      val last = filterDuplicates(key, batch.toArray, clock)
      if (last != EventTime.NoWatermark) { changed += key; newest = math.max(newest, last) }
    }
    changed.foreach(timers.add(TimerTicks.firing(newest + within), _))
    timers.save()
    out.iterator
  }

  /** Emits the rows of one key that are kept; returns the newest time of these, `NoWatermark` if none is. */
  private def filterDuplicates(key: InternalRow, batch: Array[InternalRow], clock: Long): Long = {
    if (batch.length > 1) java.util.Arrays.sort(batch, OrderStamp.order(layout.stamp))
    var kept = KeptTimesLayout.decode(state.getValue(key))
    var (duplicates, newest) = (0, EventTime.NoWatermark)
    batch.foreach { row =>
      val time = if (processingTime) clock else layout.eventTime(row)
      if (!kept.exists(k => math.abs(time - k) < within)) {
        out += keptRow(row).copy()
        kept :+= time
        newest = math.max(newest, time)
      } else if (keepDuplicates) emit(row, SideOutput.duplicate(step, sideOutputBuilder.json(row)))
      else duplicates += 1
    }
    if (duplicates > 0) emit(batch(0), SideOutput.partialCount(duplicates))
    if (newest != EventTime.NoWatermark)
      state.updateValue(key, KeptTimesLayout.encode(kept.filter(t => t == newest || !expired(t, clock))))
    newest
  }

  private def expired(time: Long, clock: Long): Boolean =
    clock != EventTime.NoWatermark && time + within <= clock
  /** Emits a side output at the time of a row. */
  private def emit(row: InternalRow, side: InternalRow): Unit = {
    sideOutput.update(0, side)
    out += sideOutputRow(withSideOutput(row, sideOutput)).copy()
  }

  override def handleExpiredTimer(
      bucket: InternalRow,
      times: TimerValues,
      timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val clock = EventTime.clock(times, processingTime)
    timers.take(timer.getExpiryTimeInMs()).foreach(removeExpired(_, clock))
    Iterator.empty
  }

  /** Removes the key's expired times; the others have a timer of their own. */
  private def removeExpired(key: InternalRow, clock: Long): Unit = {
    val stored = state.getValue(key)
    if (stored != null) {
      val times = KeptTimesLayout.decode(stored)
      val left = times.filterNot(expired(_, clock))
      if (left.isEmpty) state.removeKey(key)
      else if (left.length < times.length) state.updateValue(key, KeptTimesLayout.encode(left))
    }
  }
}
