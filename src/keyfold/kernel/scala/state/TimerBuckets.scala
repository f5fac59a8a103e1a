package org.apache.spark.sql.keyfold.state

import scala.collection.mutable
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** Keys that share what one key alone would pay too much for: a timer costs more than a key. */
object TimerBuckets {
  /** Fixed: it is how state is laid out. */
  val Count = 1024
  def of(keys: Seq[Expression]): Expression = Pmod(new Murmur3Hash(keys), Literal(Count))

  private[keyfold] def one(value: Any): InternalRow = new GenericInternalRow(Array[Any](value))
}

/** When keys of a bucket are to be looked at again: by the tick of a timer, its keys. A key that is no more, or waits for a later one, may be among them. */
class BucketTimers(handle: StatefulProcessorHandle, keySchema: StructType) {
  import TimerBuckets.one
  private val keys = new StructType().add("keys", ArrayType(keySchema, containsNull = false))
  private val ends = handle.getMapState[InternalRow, InternalRow]("ends", InternalRowEncoder.encoder(TimerTicks.schema), InternalRowEncoder.encoder(keys), TTLConfig.NONE)
  /** Those of the bucket at hand; written together. */
  private val fresh = new mutable.LinkedHashMap[Long, ArrayBuffer[Any]]

  def add(tick: Long, key: InternalRow): Unit = fresh.getOrElseUpdate(tick, new ArrayBuffer[Any]) += key

  def save(): Unit = {
    fresh.foreach { case (tick, more) =>
      val known = ends.getValue(one(tick))
      if (known == null) handle.registerTimer(tick) else more ++= keysOf(known)
      ends.updateValue(one(tick), one(new GenericArrayData(more.toArray)))
    }
    fresh.clear()
  }

  /** The keys of a tick, which are then no longer written down. */
  def take(tick: Long): Seq[InternalRow] = {
    val due = ends.getValue(one(tick))
    if (due == null) Nil else { val all = keysOf(due); ends.removeKey(one(tick)); all }
  }

  private def keysOf(stored: InternalRow): Seq[InternalRow] = { val all = stored.copy().getArray(0); Seq.tabulate(all.numElements())(all.getStruct(_, keySchema.length)) }
}
