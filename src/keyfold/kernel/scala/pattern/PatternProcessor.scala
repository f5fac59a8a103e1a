package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalRowEncoder, RowError}
import org.apache.spark.sql.keyfold.rows.{EventTime, SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{BucketTimers, EventTimeBuffer, KeyedProcessor, RetainedRowsProcessor, ShuffledRowLayout, StructPacking, TimerTicks}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.CollectionAccumulator

/** A table's pattern: how rows are matched, what its conditions look at, whether rows wait for their turn in event time, and how long a match is shown, in microseconds. */
case class PatternSettings(matching: MatchSettings, conditions: MatchConditions, held: Boolean, ttl: Option[Long], label: String, trace: Option[CollectionAccumulator[String]]) {
  /** What is only to be forgotten is so at most so much later, in milliseconds: keys then share deadlines. */
  val lag: Long = matching.within.fold(1L)(w => math.max(1L, w / 16000))
}

/**
 * Matches of a pattern, a row each, by the key and an identity of their own. Keys share buckets. Kept of a bucket are the rows that wait for the watermark, and of a
 * key its partial matches, the complete ones that are held back, the rows that both have taken, and, if
 * matches go one day, which there are; a key without any has no state.
 */
class PatternProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, p: PatternSettings) extends KeyedProcessor(fold, arriving, keeping) {
  import p.matching

  @transient private var state: MapState[InternalRow, InternalRow] = _
  @transient private var deadlines: BucketTimers = _
  @transient private var waiting: EventTimeBuffer = _
  @transient private var arrival: Boolean = _
  @transient private lazy val looking = new MatchConditionEvaluator(p.conditions, matching.automaton)
  @transient private lazy val shows = new MatchColumns(p.conditions, matching.automaton, fold.result.flatMap(_.references).map(_.exprId).toSet)
  @transient protected override lazy val rejects = new SideOutputBuilder(p.conditions.read, p.conditions.row, keeping)
  /** For a match that can't be shown: its key, and what is known of its last row. */
  @transient private lazy val lost = {
    val keys = fold.keys.init
    new SideOutputBuilder(keys ++ p.conditions.read.filterNot(a => keys.exists(_.exprId == a.exprId)), keys ++ p.conditions.row, keeping)
  }
  private val width = p.conditions.kept.length
  private val keyWidth = fold.keys.length - 1
  private val keySchema = RetainedRowsProcessor.schema(fold.keys.init)
  /** A row on its way: its key, what is kept of it, the conditions that are true for it, its time and its place among those that arrived. */
  private val one = new StructType().add("key", keySchema).add("row", p.conditions.kept).add("mask", LongType).add("time", LongType).add("arrival", LongType)
  @transient private lazy val packed = {
    val key = CreateNamedStruct(fold.keys.init.zip(arriving.input.slice(1, arriving.prefix)).flatMap { case (k, a) => Seq(Literal(k.name), a) })
    val (row, mask, stamp) = (arriving.input(arriving.prefix), arriving.input(arriving.prefix + 1), arriving.input(arriving.prefix + 2))
    UnsafeProjection.create(Seq(key, row, mask, Coalesce(Seq(UnixMicros(GetStructField(stamp, 0)), Literal(0L))), GetStructField(stamp, 1)), arriving.input)
  }
  private val rows = StructPacking(p.conditions.kept)
  private val shown = StructPacking(new StructType().add("id", StringType).add("until", LongType).add("was", fold.seen))
  /** Told on the driver, before each batch: which one of the state's it is. */
  var version: Long = 0L

  @transient private lazy val keyText: InternalRow => String = {
    val columns = fold.keys.init
    val texts = new SideOutputBuilder(columns, columns, keeping)
    texts.json
  }

  override def stateSchema: StructType = new StructType().add("timer", LongType).add("rows", rows.dataType)
    .add("times", ArrayType(LongType, false)).add("marks", ArrayType(LongType, false)).add("nodes", ArrayType(IntegerType, false)).add("partials", ArrayType(LongType, false))
    .add("shown", if (p.ttl.isEmpty) BooleanType else shown.dataType)
  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.empty

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getMapState[InternalRow, InternalRow]("state", InternalRowEncoder.encoder(keySchema), InternalRowEncoder.encoder(stateSchema), TTLConfig.NONE)
    deadlines = new BucketTimers(getHandle, keySchema)
    arrival = time != TimeMode.EventTime()
    if (p.held && !arrival) waiting = new EventTimeBuffer(getHandle, one, PatternProcessor.Time)
  }

  /** A key's state at work. */
  private class Work(key: InternalRow, stored: InternalRow, clock: Long) {
    private val tracing = p.trace.map(new MatchTrace(_, matching.automaton, keyText(key), rejects)).orNull
    val matcher = new Matcher(matching, looking, tracing)
    /** The next tick at which it is looked at. */
    private var timer: Long = if (stored == null || EventTime.isDue(stored.getLong(0), clock)) TimerTicks.Never else stored.getLong(0)
    var matches: ArrayBuffer[InternalRow] = if (stored == null || p.ttl.isEmpty) new ArrayBuffer[InternalRow](0) else shown.unpack(stored, 6)
    if (stored != null) load()

    private def load(): Unit = {
      val (times, marks, nodes, partials) = (stored.getArray(2), stored.getArray(3), stored.getArray(4).toIntArray(), stored.getArray(5).toLongArray())
      val t = matcher.taken
      rows.unpack(stored, 1).zipWithIndex.foreach { case (r, i) => t.add(r, times.getLong(i), marks.getLong(i)) }
      nodes.grouped(3).foreach(n => t.node(n(0), n(1), n(2)))
      partials.grouped(4).foreach(x => matcher.load(x(0), x(1), x(2).toInt, x(3).toInt))
    }

    private var (lastTime, ordinal) = (EventTime.NoWatermark, 0L)
    def take(one: InternalRow): Unit = {
      val (row, mask) = (one.getStruct(1, width), one.getLong(2))
      val time = if (arrival) clock else one.getLong(PatternProcessor.Time)
      // Rows of one time are all there when the watermark has passed it; rows by arrival are told apart by their batch.
      val by = if (waiting != null) time else version
      if (by != lastTime) { lastTime = by; ordinal = 0L }
      val mark = XXH64.hashLong(ordinal, XXH64.hashLong(by, 42L))
      ordinal += 1
      matcher.turn(time)(emit)
      if (tracing != null) tracing.begin(row, mask, time, mark)
      try matcher.row(row, mask, time, mark)(emit) catch { case e: RowError => out += sideOutputRow(rejects.rejected(row, e)); if (tracing != null) tracing.refused(RowError.reason(e)) }
      if (tracing != null) tracing.end(matcher)
    }

    def emit(f: Match): Unit = {
      val t = matcher.taken
      val id = UTF8String.fromString(t.id(f.node))
      val b = new GenericInternalRow(3 + p.conditions.match_.length)
      b.update(0, t.times(f.start)); b.update(1, f.ended); b.update(2, f.timedOut)
      val of = shows.fill(t, f.node)
      (0 until of.numFields).foreach(i => b.update(3 + i, of.get(i, p.conditions.match_(i).dataType)))
      val whole = new JoinedRow(key, InternalRow(id))
      try {
        out += live.upsert(whole, b, null).copy()
        p.ttl.foreach(d => matches += new GenericInternalRow(Array[Any](id, f.ended + d, live.before(whole, b))))
      } catch { case e: RowError => out += sideOutputRow(lost.rejected(new JoinedRow(key, t.rows(t.row(f.node))), e)) }
    }

    /** What is due by now, whether rows came or not. */
    def pass(): Unit = if (clock != EventTime.NoWatermark) {
      matcher.expire(clock)(emit)
      if (tracing != null) tracing.end(matcher)
      val (gone, stay) = matches.partition(_.getLong(1) <= clock)
      gone.foreach(g => out += live.delete(new JoinedRow(key, InternalRow(g.getUTF8String(0))), if (g.isNullAt(2)) null else g.getStruct(2, fold.seen.length)).copy())
      matches = stay
    }

    /** The time of the partial match that is over first, or last. */
    private def over(which: (Long, Long) => Long): Option[Long] = matching.within.filter(_ => matcher.groups.nonEmpty).map { w =>
      matcher.groups.iterator.flatMap(g => (0 until g.length).iterator.map(k => matcher.taken.times(g.starts(k)))).reduce(which) + w
    }
    /** When it must be looked at. */
    private def due: Option[Long] = 
      ((if (matching.ends) over(math.min) else matcher.release) ++ matches.map(_.getLong(1))).minOption

    def store(): Unit = {
      if (matcher.dropped > 0) out += sideOutputRow(SideOutput.duplicates(p.label, matcher.dropped))
      if (matches.isEmpty && matcher.groups.isEmpty) { if (stored != null) state.removeKey(key) }
      else {
        val at = due.map(TimerTicks.firing).getOrElse(if (timer != TimerTicks.Never) timer else over(math.max).fold(TimerTicks.Never)(t => -Math.floorDiv(-TimerTicks.firing(t), p.lag) * p.lag))
        if (at < timer) { deadlines.add(at, key); timer = at }
        state.updateValue(key, new GenericInternalRow(timer +: compact() :+ (if (p.ttl.isEmpty) null else shown.pack(matches))))
      }
    }

    /** What is needed of what was taken: rows, their times and marks, nodes, and the partial matches. */
    private def compact(): Array[Any] = {
      val t = matcher.taken
      val (nodeTo, rowTo) = (Array.fill(t.row.length)(-1), Array.fill(t.rows.length)(-1))
      matcher.each { (_, _, node, start) =>
        var n = node
        while (n >= 0 && nodeTo(n) < 0) { nodeTo(n) = 0; rowTo(t.row(n)) = 0; n = t.before(n) }
        rowTo(start) = 0
      }
      def renumber(of: Array[Int]): Array[Int] = { var n = 0; of.indices.filter { i => val used = of(i) >= 0; if (used) { of(i) = n; n += 1 }; used }.toArray }
      val (keptNodes, keptRows) = (renumber(nodeTo), renumber(rowTo))
      val nodes = keptNodes.flatMap(n => Array(rowTo(t.row(n)), t.position(n), if (t.before(n) < 0) -1 else nodeTo(t.before(n))))
      val partials = new ArrayBuffer[Long](matcher.count * 4)
      matcher.each { (at, alive, node, start) =>
        partials ++= Seq(at, alive, nodeTo(node).toLong, rowTo(start).toLong)
      }
      Array(rows.pack(ArrayBuffer.from(keptRows.map(t.rows(_)))), UnsafeArrayData.fromPrimitiveArray(keptRows.map(t.times(_))), UnsafeArrayData.fromPrimitiveArray(keptRows.map(t.marks(_))),
        UnsafeArrayData.fromPrimitiveArray(nodes), UnsafeArrayData.fromPrimitiveArray(partials.toArray))
    }
  }

  override def handleInputRows(bucket: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (bucket.anyNull) return rows.map(r => sideOutputRow(arriving.sideOutput(r)))
    out.clear()
    val clock = EventTime.clock(times, arrival)
    val batch = rows.map(r => packed(r).copy(): InternalRow).toArray
    if (batch.length > 1) java.util.Arrays.sort(batch, PatternProcessor.order(waiting != null))
    if (waiting == null) take(ArrayBuffer.from(batch), clock)
    else {
      // Rows of a stream that was held back before may be due as they come.
      val (due, left) = batch.span(_.getLong(PatternProcessor.Time) < clock)
      waiting.load(clock)
      take(RetainedRowsProcessor.merged(waiting.due(clock), due)(_.getLong(PatternProcessor.Time)), clock)
      waiting.add(left)
      waiting.save()
    }
    deadlines.save()
    out.iterator
  }

  /** Rows in order, each by its key. */
  private def take(rows: ArrayBuffer[InternalRow], clock: Long): Unit = {
    val byKey = new java.util.LinkedHashMap[InternalRow, ArrayBuffer[InternalRow]]
    rows.foreach(r => byKey.computeIfAbsent(r.getStruct(0, keyWidth), _ => new ArrayBuffer[InternalRow]) += r)
    byKey.forEach { (key, own) =>
      val work = new Work(key, state.getValue(key), clock)
      own.foreach(work.take)
      work.pass()
      work.store()
    }
  }

  override def handleExpiredTimer(bucket: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    out.clear()
    val (clock, tick) = (EventTime.clock(times, arrival), timer.getExpiryTimeInMs())
    if (waiting != null) { waiting.load(clock); take(waiting.due(clock), clock); waiting.save() }
    deadlines.take(tick).foreach { key =>
      val stored = state.getValue(key)
      // If it waits for a later one, what was due has been done when rows came, in this batch.
      if (stored != null && stored.getLong(0) <= tick) {
        val work = new Work(key, stored, clock)
        work.pass()
        work.store()
      }
    }
    deadlines.save()
    out.iterator
  }
}

object PatternProcessor {
  /** Where a row on its way has its time; behind it is its place among those that arrived. */
  private val Time = 3
  /** By time if rows wait for their turn, then by arrival. */
  private def order(timed: Boolean): java.util.Comparator[InternalRow] = (x, y) => {
    val t = if (timed) java.lang.Long.compare(x.getLong(Time), y.getLong(Time)) else 0
    if (t != 0) t else java.lang.Long.compare(x.getLong(Time + 1), y.getLong(Time + 1))
  }
}
