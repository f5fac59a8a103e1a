package org.apache.spark.sql.keyfold.dedup

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.rows.{EventTime, SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{BucketTimers, KeyedProcessor, TimerBuckets, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** What comes through the shuffle to a step within a stream: a bucket, the key, the row's columns, when it was, and the text of a row set aside. */
case class DedupLayout(input: Seq[Attribute], keys: Int, columns: Int, timed: Boolean) {
  private val first = 1 + keys
  val (stamp, sideOutput) = (first + columns, first + columns + 1)
  def key: Seq[Attribute] = input.slice(1, first)
  def row: Seq[Attribute] = input.slice(first, stamp)
  private def time = if (timed) Seq(GetStructField(input(stamp), 0)) else Nil
  /** The row as the stream goes on with it: its columns, its time if it has one, and no rejection. */
  def good: Seq[Expression] = row ++ time :+ SideOutput.none
  def aside: Seq[Expression] = row.map(a => Literal(null, a.dataType)) ++ time :+ input(sideOutput)
}

/**
 * Rows of which none with the same key was kept less than `within` before or after. Kept of a key are the times of the rows that went on, for as long as a row that is
 * not late can be near one of them. Keys share buckets: a timer costs more than a key, and there is one for all keys of a bucket that a batch brought. `removed`: rows
 * that don't go on are kept aside whole; else they are counted.
 */
class DedupProcessor(passing: DedupLayout, within: Long, step: String, removed: Boolean, keeping: SideOutputSettings) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var state: MapState[InternalRow, InternalRow] = _
  /** When times of a key may be over. */
  @transient private var deadlines: BucketTimers = _
  @transient private var arrival: Boolean = _
  @transient private lazy val good = UnsafeProjection.create(passing.good, passing.input)
  @transient private lazy val aside = UnsafeProjection.create(passing.aside, passing.input)
  @transient private lazy val keyOf = UnsafeProjection.create(passing.key, passing.input)
  @transient private lazy val rejects = new SideOutputBuilder(passing.row, passing.input, keeping)
  @transient private lazy val out = new ArrayBuffer[InternalRow](4)
  @transient private lazy val said = new GenericInternalRow(1)
  @transient private lazy val marked = {
    val side = SideOutput.attribute()
    UnsafeProjection.create(passing.aside.init :+ side, passing.input :+ side)
  }
  private def keySchema = StructType(passing.key.map(a => StructField(a.name, a.dataType)))

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    val times = new StructType().add("times", ArrayType(LongType, containsNull = false))
    state = getHandle.getMapState[InternalRow, InternalRow]("state", InternalRowEncoder.encoder(keySchema), InternalRowEncoder.encoder(times), TTLConfig.NONE)
    deadlines = new BucketTimers(getHandle, keySchema)
    arrival = time == TimeMode.ProcessingTime()
  }

  override def handleInputRows(bucket: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (bucket.anyNull) return rows.map(aside(_))
    val clock = EventTime.clock(times, arrival)
    out.clear()
    val byKey = new java.util.LinkedHashMap[InternalRow, ArrayBuffer[InternalRow]]
    rows.foreach { r =>
      val key = keyOf(r)
      val known = byKey.get(key)
      if (known == null) byKey.put(key.copy(), ArrayBuffer(r.copy())) else known += r.copy()
    }
    val fresh = new ArrayBuffer[InternalRow](byKey.size)
    var newest = Long.MinValue
    byKey.forEach { (key, batch) =>
      val last = pass(key, batch.toArray, clock)
      if (last != EventTime.NoWatermark) { fresh += key; newest = math.max(newest, last) }
    }
    fresh.foreach(deadlines.add(TimerTicks.firing(newest + within), _))
    deadlines.save()
    out.iterator
  }

  private def at(row: InternalRow, clock: Long): Long = if (arrival) clock else row.getStruct(passing.stamp, 2).getLong(0)

  /** Lets rows of one key go on, or not; the newest time that is kept more than before. */
  private def pass(key: InternalRow, batch: Array[InternalRow], clock: Long): Long = {
    if (batch.length > 1) java.util.Arrays.sort(batch, KeyedProcessor.byStamp(passing.stamp))
    val stored = state.getValue(key)
    val before = if (stored == null) Array.empty[Long] else stored.getArray(0).toLongArray()
    var (kept, repeats, last) = (before, 0, EventTime.NoWatermark)
    batch.foreach { row =>
      val t = at(row, clock)
      if (!kept.exists(k => math.abs(t - k) < within)) { out += good(row).copy(); kept :+= t; last = math.max(last, t) }
      else if (removed) out += mark(row, SideOutput.duplicate(step, rejects.json(row)))
      else repeats += 1
    }
    if (repeats > 0) out += mark(batch(0), SideOutput.partialCount(repeats))
    if (last != EventTime.NoWatermark) state.updateValue(key, TimerBuckets.one(new GenericArrayData(kept.filter(t => t == last || !over(t, clock)))))
    last
  }

  private def over(t: Long, clock: Long): Boolean = clock != EventTime.NoWatermark && t + within <= clock
  private def mark(row: InternalRow, side: InternalRow): InternalRow = { said.update(0, side); marked(new JoinedRow(row, said)).copy() }

  override def handleExpiredTimer(bucket: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    deadlines.take(timer.getExpiryTimeInMs()).foreach(end(_, EventTime.clock(times, arrival)))
    Iterator.empty
  }

  private def end(key: InternalRow, clock: Long): Unit = {
    val stored = state.getValue(key)
    if (stored != null) {
      val all = stored.getArray(0).toLongArray()
      // Those that came later are remembered for later.
      val left = all.filterNot(over(_, clock))
      if (left.isEmpty) state.removeKey(key) else if (left.length < all.length) state.updateValue(key, TimerBuckets.one(new GenericArrayData(left)))
    }
  }
}
