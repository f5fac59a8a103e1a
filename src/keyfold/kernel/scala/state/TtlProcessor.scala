package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder}
import org.apache.spark.sql.keyfold.rows.SideOutputSettings
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** One state per key, forgotten when the key has not been seen for so long: by event time where there is one, else by the time of batches. */
abstract class TtlProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, ttlMs: Option[Long]) extends KeyedProcessor(fold, arriving, keeping) {
  @transient protected var state: ValueState[InternalRow] = _
  @transient protected var arrival: Boolean = _

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", InternalRowEncoder.encoder(stateSchema), TTLConfig.NONE)
    arrival = time == TimeMode.ProcessingTime()
  }

  protected def now(times: TimerValues): Long = if (arrival) times.getCurrentProcessingTimeInMs() else times.getCurrentWatermarkInMs()

  /** Whether a key last seen then is over when rows come. Before the first watermark, which Spark says is zero, none is. */
  protected def over(seenMs: Long, times: TimerValues): Boolean = {
    val at = if (arrival) now(times) else batch.upstreamWatermarkMs.getOrElse(now(times))
    ttlMs.exists(t => at > 0 && seenMs + t <= at)
  }
  protected def due(seenMs: Long): Long = math.max(1L, seenMs + ttlMs.get)

  /** At a timer: forgets the key, or waits on if it has been seen since. */
  protected def expire(key: InternalRow, due: Long, times: TimerValues): Iterator[InternalRow] =
    if (due > now(times)) { getHandle.registerTimer(due); Iterator.empty }
    else { val said = forgotten(key, state.get()); state.clear(); said }

  /** What is said of a key that is forgotten. */
  protected def forgotten(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.single(live.delete(key, before(key, stored)).copy())
  /** What a reader has seen of a stored state. */
  protected def before(key: InternalRow, stored: InternalRow): InternalRow
}
