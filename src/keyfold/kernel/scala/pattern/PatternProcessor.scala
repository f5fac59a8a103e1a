package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{BucketTimers, EventTimeBuffer, KeyedProcessor}
import org.apache.spark.sql.keyfold.state.{RetainedRowsProcessor, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * Emits the matches of a pattern, one row each, by the key and the match's id. Keys share timer buckets. A
 * bucket's state is the rows that are buffered until the watermark passes them; a key's state is its partial
 * and deferred matches, the rows that they have matched, and the matches that are shown if they have a TTL. A
 * key without any of these has no state.
 */
class PatternProcessor(
    fold: AggregateFold,
    layout: PatternLayout,
    sideOutputs: SideOutputSettings,
    settings: PatternSettings) extends KeyedProcessor(fold, layout.shuffled, sideOutputs) {
  import settings.{conditions, matching}

  @transient private var state: MapState[InternalRow, InternalRow] = _
  @transient private var timers: BucketTimers = _
  /** Null if rows are matched in the order of their arrival. */
  @transient private var buffer: EventTimeBuffer = _
  @transient private var processingTime: Boolean = _
  @transient private lazy val predicate = new MatchConditionEvaluator(conditions, matching.automaton)
  @transient private lazy val emitter = new MatchEmitter(fold, settings, sideOutputs, live, sideOutputRow)

  private val keyColumns = fold.keys.init
  private val keySchema = RetainedRowsProcessor.schema(keyColumns)
  private val buffered = BufferedRowLayout(keySchema, conditions.storedRow)
  private val shownMatch = ShownMatchLayout(fold.seen)
  private val stateLayout = PatternStateLayout(conditions.storedRow, settings.ttl.map(_ => shownMatch))
  private val timer = MatchTimer(settings)
  @transient private lazy val toBuffered = buffered.projection(layout)

  @transient protected override lazy val rejects =
    new SideOutputBuilder(conditions.stored, conditions.row, sideOutputs)
  @transient private lazy val keyJson = new SideOutputBuilder(keyColumns, keyColumns, sideOutputs)

  override def stateSchema: StructType = stateLayout.schema
  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.empty

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getMapState[InternalRow, InternalRow]("state", InternalRowEncoder.encoder(keySchema),
      InternalRowEncoder.encoder(stateSchema), TTLConfig.NONE)
    timers = new BucketTimers(getHandle, keySchema)
    processingTime = time != TimeMode.EventTime()
    if (settings.eventOrder && !processingTime)
      buffer = new EventTimeBuffer(getHandle, buffered.schema, BufferedRowLayout.Time)
  }

  override def handleInputRows(
      bucket: InternalRow,
      rows: Iterator[InternalRow],
      times: TimerValues): Iterator[InternalRow] = {
    if (bucket.anyNull) return rows.map(r => sideOutputRow(layout.sideOutput(r)))
    out.clear()
    val clock = EventTime.clock(times, processingTime)
    val batch = rows.map(r => toBuffered(r).copy(): InternalRow).toArray
    if (buffer == null) {
      if (batch.length > 1) java.util.Arrays.sort(batch, BufferedRowLayout.byArrival)
      matchRows(ArrayBuffer.from(batch), clock)
    } else {
      if (batch.length > 1) java.util.Arrays.sort(batch, BufferedRowLayout.byTimeAndArrival)
      // Rows that an operator upstream has buffered may be due when they arrive.
      val (due, early) = batch.span(buffered.time(_) < clock)
      buffer.load(clock)
      matchRows(RetainedRowsProcessor.merged(buffer.due(clock), due)(buffered.time), clock)
      buffer.add(early)
      buffer.save()
    }
    timers.save()
    out.iterator
  }

  override def handleExpiredTimer(
      bucket: InternalRow,
      times: TimerValues,
      fired: ExpiredTimerInfo): Iterator[InternalRow] = {
    out.clear()
    val (clock, tick) = (EventTime.clock(times, processingTime), fired.getExpiryTimeInMs())
    if (buffer != null) { buffer.load(clock); matchRows(buffer.due(clock), clock); buffer.save() }
    timers.take(tick).foreach { key =>
      val stored = state.getValue(key)
      // With a later timer, rows of this batch have already done what was due.
      if (stored != null && stateLayout.timer(stored) <= tick) {
        val matches = new KeyMatches(key, stored, clock)
        matches.expire()
        matches.store()
      }
    }
    timers.save()
    out.iterator
  }

  /** Matches rows that are in order, key by key. */
  private def matchRows(rows: ArrayBuffer[InternalRow], clock: Long): Unit = {
    val byKey = new java.util.LinkedHashMap[InternalRow, ArrayBuffer[InternalRow]]
    rows.foreach(r => byKey.computeIfAbsent(buffered.key(r), _ => new ArrayBuffer[InternalRow]) += r)
    byKey.forEach { (key, own) =>
      val matches = new KeyMatches(key, state.getValue(key), clock)
      own.foreach(matches.add)
      matches.expire()
      matches.store()
    }
  }

  /** The matches of one key, from its state (null if it has none), at a time. */
  private class KeyMatches(key: InternalRow, stored: InternalRow, clock: Long) {
    private val trace = settings.trace
      .map(new MatchTrace(_, matching.automaton, keyJson.json(key), rejects)).orNull
    private val matcher = new Matcher(matching, predicate, trace)
    /** The tick of the timer that is registered for the key. */
    private var registered =
      if (stored == null || EventTime.isDue(stateLayout.timer(stored), clock)) TimerTicks.Never
      else stateLayout.timer(stored)
    private var shownMatches =
      if (stored == null) new ArrayBuffer[InternalRow](0) else stateLayout.shownMatches(stored)
    if (stored != null) stateLayout.restore(stored, matcher)
    private val emit: Match => Unit = emitter.show(key, _, matcher.matched, out, shownMatches)
    private var lastTimeOrBatch = EventTime.NoWatermark
    private var ordinal = 0L

    def add(one: InternalRow): Unit = {
      val (row, mask) = (buffered.row(one), buffered.mask(one))
      val time = if (processingTime) clock else buffered.time(one)
      val rowId = nextRowId(time)
      matcher.advance(time)(emit)
      if (trace != null) trace.begin(row, mask, time, rowId)
      try matcher.accept(row, mask, time, rowId)(emit) catch { case e: RowError =>
        out += sideOutputRow(rejects.rejected(row, e))
        if (trace != null) trace.onRejected(RowError.reason(e))
      }
      if (trace != null) trace.end(matcher)
    }

    /** All buffered rows of one time are matched in one batch; otherwise a row is identified by its batch. */
    private def nextRowId(time: Long): Long = {
      val timeOrBatch = if (buffer != null) time else batch.stateVersion
      if (timeOrBatch != lastTimeOrBatch) { lastTimeOrBatch = timeOrBatch; ordinal = 0L }
      ordinal += 1
      MatchedRows.rowId(timeOrBatch, ordinal - 1)
    }

    /** Expires partial matches and matches that are shown, whether rows have arrived or not. */
    def expire(): Unit = if (clock != EventTime.NoWatermark) {
      matcher.expire(clock)(emit)
      if (trace != null) trace.end(matcher)
      val (expired, left) = shownMatches.partition(shownMatch.expiresAt(_) <= clock)
      expired.foreach(shown => out += emitter.delete(key, shown))
      shownMatches = left
    }

    def store(): Unit = {
      if (matcher.droppedPartials > 0)
        out += sideOutputRow(SideOutput.droppedPartials(matcher.droppedPartials))
      if (shownMatches.isEmpty && matcher.partials.isEmpty) { if (stored != null) state.removeKey(key) }
      else {
        val tick = timer.nextTick(matcher, shownMatches.iterator.map(shownMatch.expiresAt), registered)
        if (tick < registered) { timers.add(tick, key); registered = tick }
        state.updateValue(key, stateLayout.encode(registered, matcher, shownMatches))
      }
    }
  }
}
