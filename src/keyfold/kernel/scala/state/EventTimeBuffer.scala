package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.rows.EventTime
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Rows of a bucket that wait until the watermark has passed them, in the order of their times and then of their arrival. They lie in chunks, each from the time of
 * its first row to that of the next chunk's, so that a batch touches those that it adds to and those that are due, and no others.
 */
class EventTimeBuffer(handle: StatefulProcessorHandle, schema: StructType, time: Int) {
  import TimerBuckets.one
  private val rows = StructPacking(schema)
  private val head = new StructType().add("timer", LongType).add("starts", ArrayType(LongType, containsNull = false))
  private val heads = handle.getValueState[InternalRow]("heads", InternalRowEncoder.encoder(head), TTLConfig.NONE)
  private val chunks = handle.getMapState[InternalRow, InternalRow]("waiting", InternalRowEncoder.encoder(TimerTicks.schema), InternalRowEncoder.encoder(new StructType().add("rows", rows.dataType)), TTLConfig.NONE)
  // Of the bucket at hand.
  private var (starts, timer, changed) = (new ArrayBuffer[Long], TimerTicks.Never, false)

  def load(clock: Long): Unit = {
    val stored = heads.get()
    starts = if (stored == null) new ArrayBuffer[Long] else ArrayBuffer.from(stored.getArray(1).toLongArray())
    val gone = stored == null || EventTime.isDue(stored.getLong(0), clock)
    timer = if (gone) TimerTicks.Never else stored.getLong(0)
    changed = stored != null && gone
  }

  private def at(row: InternalRow): Long = row.getLong(time)
  private def chunk(start: Long): ArrayBuffer[InternalRow] = rows.unpack(chunks.getValue(one(start)), 0)

  /** Puts rows in the place of a chunk; rows of one time are never torn apart. */
  private def put(place: Int, replaced: Int, all: ArrayBuffer[InternalRow]): Unit = {
    val fresh = new ArrayBuffer[Long]
    var from = 0
    while (from < all.length) {
      var until = if (all.length - from <= EventTimeBuffer.Most) all.length else from + EventTimeBuffer.Most / 2
      while (until < all.length && at(all(until)) == at(all(until - 1))) until += 1
      fresh += at(all(from))
      chunks.updateValue(one(fresh.last), one(rows.pack(all.slice(from, until))))
      from = until
    }
    starts.slice(place, place + replaced).foreach(s => if (!fresh.contains(s)) chunks.removeKey(one(s)))
    starts.patchInPlace(place, fresh, replaced)
    changed = true
  }

  /** Rows that are in order. */
  def add(fresh: Array[InternalRow]): Unit = {
    var from = 0
    while (from < fresh.length) {
      val place = math.max(0, starts.lastIndexWhere(_ <= at(fresh(from))))
      val until = if (place + 1 >= starts.length) fresh.length else { val next = fresh.indexWhere(at(_) >= starts(place + 1), from); if (next < 0) fresh.length else next }
      val known = place < starts.length
      put(place, if (known) 1 else 0, RetainedRowsProcessor.merged(if (known) chunk(starts(place)) else new ArrayBuffer[InternalRow](0), fresh.slice(from, until))(at))
      from = until
    }
  }

  /** Takes out the rows that the watermark has passed. */
  def due(clock: Long): ArrayBuffer[InternalRow] = {
    val all = new ArrayBuffer[InternalRow]
    if (clock != EventTime.NoWatermark) while (starts.nonEmpty && starts.head < clock) {
      val (passed, left) = chunk(starts.head).span(at(_) < clock)
      all ++= passed
      put(0, 1, left)
    }
    all
  }

  def save(): Unit = if (changed) {
    val at = if (starts.isEmpty) TimerTicks.Never else TimerTicks.firing(starts.head + 1)
    if (at < timer) { handle.registerTimer(at); timer = at }
    if (timer == TimerTicks.Never) heads.clear() else heads.update(new GenericInternalRow(Array[Any](timer, UnsafeArrayData.fromPrimitiveArray(starts.toArray))))
  }
}

object EventTimeBuffer {
  /** Rows of a chunk: few enough to be written again with each batch that adds one. */
  val Most = 256
}
