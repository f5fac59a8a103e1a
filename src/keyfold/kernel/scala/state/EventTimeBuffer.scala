package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Buffers the rows of a bucket until the watermark has passed them, by event time and then arrival; `time`
 * is where a row has its event time. The rows are stored in chunks, each from the time of its first row to
 * that of the next chunk's first row, so that a batch touches only the chunks that it adds to or that are
 * due.
 */
class EventTimeBuffer(handle: StatefulProcessorHandle, schema: StructType, time: Int) {
  import TimerBuckets.one
  private val rows = StructPacking(schema)
  private val chunkSchema = new StructType().add("rows", rows.dataType)
  private val headSchema =
    new StructType().add("timer", LongType).add("starts", ArrayType(LongType, containsNull = false))
  private val heads =
    handle.getValueState[InternalRow]("heads", InternalRowEncoder.encoder(headSchema), TTLConfig.NONE)
  private val chunks = handle.getMapState[InternalRow, InternalRow]("waiting",
    InternalRowEncoder.encoder(TimerTicks.schema), InternalRowEncoder.encoder(chunkSchema), TTLConfig.NONE)

  // The current bucket: the times at which its chunks start, its timer, and whether its head must be written.
  private var (starts, timer, changed) = (new ArrayBuffer[Long], TimerTicks.Never, false)

  /** Makes the bucket of the current key the current one. */
  def load(clock: Long): Unit = {
    val stored = heads.get()
    starts = if (stored == null) new ArrayBuffer[Long] else ArrayBuffer.from(stored.getArray(1).toLongArray())
    val fired = stored != null && EventTime.isDue(stored.getLong(0), clock)
    timer = if (stored == null || fired) TimerTicks.Never else stored.getLong(0)
    changed = fired
  }

  private def at(row: InternalRow): Long = row.getLong(time)
  private def chunk(start: Long): ArrayBuffer[InternalRow] = rows.unpack(chunks.getValue(one(start)), 0)

  /** Replaces `replaced` chunks at `index` by chunks of `all`; rows of one time stay in one chunk. */
  private def put(index: Int, replaced: Int, all: ArrayBuffer[InternalRow]): Unit = {
    val fresh = new ArrayBuffer[Long]
    var from = 0
    while (from < all.length) {
      val until = chunkEnd(all, from)
      fresh += at(all(from))
      chunks.updateValue(one(fresh.last), one(rows.pack(all.slice(from, until))))
      from = until
    }
    starts.slice(index, index + replaced).foreach(s => if (!fresh.contains(s)) chunks.removeKey(one(s)))
    starts.patchInPlace(index, fresh, replaced)
    changed = true
  }

  private def chunkEnd(all: ArrayBuffer[InternalRow], from: Int): Int = {
    val fits = all.length - from <= EventTimeBuffer.MaxChunk
    var until = if (fits) all.length else from + EventTimeBuffer.MaxChunk / 2
    while (until < all.length && at(all(until)) == at(all(until - 1))) until += 1
    until
  }

  /** Adds rows that are sorted by time. */
  def add(fresh: Array[InternalRow]): Unit = {
    var from = 0
    while (from < fresh.length) {
      val index = math.max(0, starts.lastIndexWhere(_ <= at(fresh(from))))
      val next = if (index + 1 >= starts.length) -1 else fresh.indexWhere(at(_) >= starts(index + 1), from)
      val until = if (next < 0) fresh.length else next
      val exists = index < starts.length
      val old = if (exists) chunk(starts(index)) else new ArrayBuffer[InternalRow](0)
      put(index, if (exists) 1 else 0, RetainedRowsProcessor.merged(old, fresh.slice(from, until))(at))
      from = until
    }
  }

  /** Removes the rows that the watermark has passed and returns them in order. */
  def due(clock: Long): ArrayBuffer[InternalRow] = {
    val all = new ArrayBuffer[InternalRow]
    if (clock != EventTime.NoWatermark) while (starts.nonEmpty && starts.head < clock) {
      val (passed, left) = chunk(starts.head).span(at(_) < clock)
      all ++= passed
      put(0, 1, left)
    }
    all
  }

  /** Stores the current bucket, and sets its timer for the first row that is left. */
  def save(): Unit = if (changed) {
    val next = if (starts.isEmpty) TimerTicks.Never else TimerTicks.firing(starts.head + 1)
    if (next < timer) { handle.registerTimer(next); timer = next }
    if (timer == TimerTicks.Never) heads.clear()
    else heads.update(InternalRow(timer, UnsafeArrayData.fromPrimitiveArray(starts.toArray)))
  }
}

object EventTimeBuffer {
  /**
   * The most rows of a chunk, unless more have one time: a chunk is written again by each batch that adds
   * to it.
   */
  val MaxChunk = 256
}
