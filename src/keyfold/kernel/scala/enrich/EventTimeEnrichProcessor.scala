package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.rows.EventTime
import org.apache.spark.sql.keyfold.state.{ChangeEmitter, StructPacking, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** What a key's state was from a time on, in microseconds. */
case class ValueVersion(from: Long, state: InternalRow)

/**
 * A stream that meets a table as it was at the time of each row. The table's own rows come here (`side` 1, what its fold reads of them as `value`) and are folded into
 * versions, one for each time at which the key had a row; kept are those that a row of the stream that is not late, or that waits, can ask for. A row that waits is
 * answered when the watermark has passed it by more than that: no version up to its time can come then.
 */
class EventTimeEnrichProcessor(m: EnrichLayout, fold: AggregateFold, ttlMs: Option[Long], out: Seq[Expression], said: Seq[Attribute]) extends EnrichProcessor(m, out, said) {
  @transient private var state: ValueState[InternalRow] = _
  @transient private lazy val live = new ChangeEmitter(fold)
  private val width = fold.state.length
  private val packing = StructPacking(new StructType().add("from", LongType).add("state", fold.schema))
  private def stateSchema = new StructType().add("pruned", BooleanType).add("versions", packing.dataType)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", InternalRowEncoder.encoder(stateSchema), TTLConfig.NONE)
    if (m.waits.isDefined) initHeld()
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    going.clear()
    if (key.anyNull) rows.foreach(unkeyed(key, _))
    else {
      val clock = EventTime.watermark(times.getCurrentWatermarkInMs())
      val all = new ArrayBuffer[InternalRow](4)
      rows.foreach(r => all += r.copy())
      val (asking, telling) = all.partition(_.getInt(m.side) == 0)
      var known = load()
      if (telling.nonEmpty) {
        known = fold(key, known, telling.filterNot(_.isNullAt(m.time)).sortBy(r => (r.getLong(m.time), r.getLong(m.order))))
        // Those that are due ask for what is pruned next.
        if (m.waits.isDefined) release(key, known, clock)
        store(known, clock)
      }
      asking.foreach { r =>
        val at = r.getLong(m.time)
        if (passed(at, clock)) answer(key, rowOf(r), at, known)
        else {
          hold(new GenericInternalRow(Array[Any](rowOf(r), at)))
          getHandle.registerTimer(TimerTicks.firing(at + patience + 1))
        }
      }
    }
    going.iterator
  }

  private val patience = m.waits.getOrElse(0L)
  /** Whether a row of a time need not wait. A version of the watermark's own time is not late yet. */
  private def passed(at: Long, clock: Long): Boolean = m.waits.forall(_ + at < clock)

  /** The versions of a key, oldest first, and whether there were older ones. */
  private case class Known(pruned: Boolean, versions: ArrayBuffer[ValueVersion])
  private def load(): Known = {
    val stored = state.get()
    if (stored == null) Known(pruned = false, new ArrayBuffer[ValueVersion])
    else Known(stored.getBoolean(0), packing.unpack(stored, 1).map(v => ValueVersion(v.getLong(0), v.getStruct(1, width).copy())))
  }

  /** A row is part of the version of its time and of all later ones. */
  private def fold(key: InternalRow, known: Known, rows: ArrayBuffer[InternalRow]): Known = {
    val versions = known.versions.clone()
    rows.foreach { r =>
      try {
        val (at, value) = (r.getLong(m.time), r.getStruct(m.valueAt, m.value.length))
        var i = versions.lastIndexWhere(_.from <= at)
        val next = versions.indices.drop(i + 1).map(j => ValueVersion(versions(j).from, live.plus(versions(j).state, value)))
        val mine = ValueVersion(at, live.plus(if (i < 0) null else versions(i).state, value))
        next.indices.foreach(j => versions(i + 1 + j) = next(j))
        if (i >= 0 && versions(i).from == at) versions(i) = mine else if (i >= 0 || !known.pruned) { i += 1; versions.insert(i, mine) }
      } catch { case _: RowError => () } // The table itself has it among its rejected rows.
    }
    Known(known.pruned, versions)
  }

  /** Of the versions up to the watermark, or as far behind it as rows wait, only the newest can still be asked for. */
  private def store(known: Known, clock: Long): Unit = if (known.versions.nonEmpty) {
    val first = if (clock == EventTime.NoWatermark) 0 else math.max(0, known.versions.lastIndexWhere(_.from <= clock - patience))
    val left = known.versions.drop(first)
    if (ttlMs.isDefined && !state.exists()) expire(left.last)
    state.update(new GenericInternalRow(Array[Any](known.pruned || first > 0, packing.pack(left.map(v => new GenericInternalRow(Array[Any](v.from, v.state)): InternalRow)))))
  }

  private def end(newest: ValueVersion): Long = newest.from + ttlMs.get * 1000
  private def expire(newest: ValueVersion): Unit = getHandle.registerTimer(TimerTicks.firing(end(newest) + patience))

  private def answer(key: InternalRow, row: InternalRow, at: Long, known: Known): Unit = {
    val found = known.versions.reverseIterator.find(_.from <= at).filter(v => ttlMs.isEmpty || end(v) > at)
    say(key, row, found.map(v => live.before(key, live.read(v.state))).orNull, at, 1)
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    going.clear()
    val clock = EventTime.watermark(times.getCurrentWatermarkInMs())
    val known = load()
    if (m.waits.isDefined) release(key, known, clock)
    if (ttlMs.isDefined && known.versions.nonEmpty) { if (end(known.versions.last) + patience <= clock) state.clear() else expire(known.versions.last) }
    going.iterator
  }

  /** Rows that have waited long enough are answered. */
  private def release(key: InternalRow, known: Known, clock: Long): Unit = {
    val (over, left) = heldRows().partition(h => passed(h.getLong(1), clock))
    if (over.nonEmpty) {
      over.sortBy(_.getLong(1)).foreach(h => answer(key, heldRow(h), h.getLong(1), known))
      holdOnly(left)
    }
  }
}
