package org.apache.spark.sql.keyfold.state

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Keys share buckets, and the keys of a bucket share timers: a timer costs more than a key's own state. */
object TimerBuckets {
  /** Part of the layout of state: it can't change. */
  val Count = 1024
  def of(keys: Seq[Expression]): Expression = Pmod(new Murmur3Hash(keys), Literal(Count))

  private[keyfold] def one(value: Any): InternalRow = new GenericInternalRow(Array[Any](value))
}

/**
 * The timers of a bucket: for each tick, the keys to look at when it fires. Among them may be keys that no
 * longer exist or that a later timer is for.
 */
class BucketTimers(handle: StatefulProcessorHandle, keySchema: StructType) {
  import TimerBuckets.one
  private val keysSchema = new StructType().add("keys", ArrayType(keySchema, containsNull = false))
  private val keysByTick = handle.getMapState[InternalRow, InternalRow]("ends",
    InternalRowEncoder.encoder(TimerTicks.schema), InternalRowEncoder.encoder(keysSchema), TTLConfig.NONE)
  /** The keys that the current bucket's batch adds, written together by `save`. */
  private val added = new mutable.LinkedHashMap[Long, ArrayBuffer[Any]]

  def add(tick: Long, key: InternalRow): Unit = added.getOrElseUpdate(tick, new ArrayBuffer[Any]) += key

  def save(): Unit = {
    added.foreach { case (tick, keys) =>
      val stored = keysByTick.getValue(one(tick))
      if (stored == null) handle.registerTimer(tick) else keys ++= keysOf(stored)
      keysByTick.updateValue(one(tick), one(new GenericArrayData(keys.toArray)))
    }
    added.clear()
  }

  /** Removes the keys of a tick and returns them. */
  def take(tick: Long): Seq[InternalRow] = {
    val stored = keysByTick.getValue(one(tick))
    if (stored == null) Nil else { val keys = keysOf(stored); keysByTick.removeKey(one(tick)); keys }
  }

  private def keysOf(stored: InternalRow): Seq[InternalRow] = {
    val keys = stored.copy().getArray(0)
    Seq.tabulate(keys.numElements())(keys.getStruct(_, keySchema.length))
  }
}
