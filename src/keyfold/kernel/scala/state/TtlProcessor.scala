package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.streaming._

/**
 * One state per key, which expires when the key has not been seen for the TTL: by event time where the
 * stream has one, else by the batch's timestamp.
 */
abstract class TtlProcessor(
    fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings, ttlMs: Option[Long])
    extends KeyedProcessor(fold, layout, settings) {
  @transient protected var state: ValueState[InternalRow] = _
  @transient protected var processingTime: Boolean = _

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    val encoder = InternalRowEncoder.encoder(stateSchema)
    state = getHandle.getValueState[InternalRow]("state", encoder, TTLConfig.NONE)
    processingTime = time == TimeMode.ProcessingTime()
  }

  protected def now(times: TimerValues): Long =
    if (processingTime) times.getCurrentProcessingTimeInMs() else times.getCurrentWatermarkInMs()

  /**
   * Whether the key's TTL has expired when rows arrive. None has before the first watermark, which Spark
   * reports as zero.
   */
  protected def over(seenMs: Long, times: TimerValues): Boolean = {
    val at = if (processingTime) now(times) else batch.upstreamWatermarkMs.getOrElse(now(times))
    ttlMs.exists(ttl => at > 0 && seenMs + ttl <= at)
  }

  /** When a key that was last seen then expires. */
  protected def expiry(seenMs: Long): Long = math.max(1L, seenMs + ttlMs.get)

  /** When the timer fires: removes the key, or sets the timer again if the key has been seen since. */
  protected def expire(key: InternalRow, expiry: Long, times: TimerValues): Iterator[InternalRow] =
    if (expiry > now(times)) { getHandle.registerTimer(expiry); Iterator.empty }
    else { val deleted = deletes(key, state.get()); state.clear(); deleted }

  /** The changes that delete an expired key. */
  protected def deletes(key: InternalRow, stored: InternalRow): Iterator[InternalRow] =
    Iterator.single(live.delete(key, before(key, stored)).copy())

  /** The row that readers have of a stored state. */
  protected def before(key: InternalRow, stored: InternalRow): InternalRow
}
