package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.CollectionAccumulator

/** A table's pattern: how rows are matched, what its conditions look at, whether rows wait for their turn in event time, and how long a match is shown, in microseconds. */
case class Patterning(matching: Matching, conditions: Conditions, held: Boolean, ttl: Option[Long], label: String, trace: Option[CollectionAccumulator[String]]) {
  val one: StructType = new StructType().add("row", conditions.kept).add("mask", LongType).add("time", LongType).add("arrival", LongType)
}

/**
 * Matches of a pattern, a row each, by the key and an identity of their own. Kept of a key are the rows that wait for the watermark, the rows that partial matches
 * have taken, and, if matches go one day, which there are.
 */
class Patterned(fold: Fold, arriving: Arriving, keeping: Keeping, p: Patterning) extends Folding(fold, arriving, keeping) {
  import p.matching

  @transient private var state: ValueState[InternalRow] = _
  @transient private var arrival: Boolean = _
  @transient private lazy val looking = new LiveConditions(p.conditions, matching.automaton)
  @transient private lazy val shows = new Soles(p.conditions, matching.automaton, fold.result.flatMap(_.references).map(_.exprId).toSet)
  @transient protected override lazy val rejects = new Rejects(p.conditions.row, p.conditions.row, keeping.keep, keeping.zone, keeping.stream)
  private val width = p.conditions.kept.length
  private def stampAt = arriving.input.length - 2
  @transient private lazy val packed = {
    val (row, mask, stamp) = (arriving.input(arriving.prefix), arriving.input(arriving.prefix + 1), arriving.input(stampAt))
    UnsafeProjection.create(Seq(row, mask, Coalesce(Seq(UnixMicros(GetStructField(stamp, 0)), Literal(0L))), GetStructField(stamp, 1)), arriving.input)
  }
  private val (pending, rows) = (Structs(p.one), Structs(p.conditions.kept))
  private val shown = Structs(new StructType().add("id", StringType).add("until", LongType).add("was", fold.seen))
  /** Told on the driver, before each batch: which one of the state's it is. */
  var version: Long = 0L

  @transient private lazy val keyText: InternalRow => String = {
    val columns = fold.keys.init
    val texts = new Rejects(columns, columns, keep = true, keeping.zone, None)
    texts.text
  }

  override def stateSchema: StructType = new StructType().add("timer", LongType).add("pending", pending.dataType).add("rows", rows.dataType)
    .add("times", ArrayType(LongType, false)).add("marks", ArrayType(LongType, false)).add("nodes", ArrayType(IntegerType, false)).add("partials", ArrayType(LongType, false))
    .add("shown", shown.dataType)
  override def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.empty

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", Raw.encoder(stateSchema), TTLConfig.NONE)
    arrival = time != TimeMode.EventTime()
  }

  private def now(times: TimerValues): Long = if (arrival) times.getCurrentProcessingTimeInMs() * 1000 else Timing.micros(times.getCurrentWatermarkInMs())

  /** A key's state at work. */
  private class Work(key: InternalRow, stored: InternalRow, clock: Long) {
    private val tracing = p.trace.map(new Tracing(_, matching.automaton, keyText(key), rejects)).orNull
    val matcher = new Matcher(matching, p.conditions.own, looking, tracing)
    /** The next one that is registered; one that is due fires in this batch, and is as good as gone. */
    private var timer: Long = if (stored == null || (clock != Timing.Unknown && stored.getLong(0) <= Math.floorDiv(clock, 1000L))) Windowed.Never else stored.getLong(0)
    var waiting: ArrayBuffer[InternalRow] = if (stored == null) new ArrayBuffer[InternalRow] else pending.unpack(stored, 1)
    var matches: ArrayBuffer[InternalRow] = if (stored == null || p.ttl.isEmpty) new ArrayBuffer[InternalRow](0) else shown.unpack(stored, 7)
    if (stored != null) load()

    private def load(): Unit = {
      val (times, marks, nodes, partials) = (stored.getArray(3), stored.getArray(4), stored.getArray(5).toIntArray(), stored.getArray(6).toLongArray())
      val t = matcher.taken
      rows.unpack(stored, 2).zipWithIndex.foreach { case (r, i) => t.add(r, times.getLong(i), marks.getLong(i)) }
      nodes.grouped(3).foreach(n => t.node(n(0), n(1), n(2)))
      partials.grouped(4).foreach(x => matcher.load(x(0).toInt, x(1), x(2).toInt, x(3).toInt))
    }

    private var (lastTime, ordinal) = (Timing.Unknown, 0L)
    def take(one: InternalRow): Unit = {
      val row = one.getStruct(0, width)
      val time = if (arrival) clock else one.getLong(2)
      // Rows of one time are all there when the watermark has passed it; rows by arrival are told apart by their batch.
      val by = if (p.held && !arrival) time else version
      if (by != lastTime) { lastTime = by; ordinal = 0L }
      val mark = XXH64.hashLong(ordinal, XXH64.hashLong(by, 42L))
      ordinal += 1
      if (tracing != null) tracing.begin(row, one.getLong(1), time, mark)
      try matcher.row(row, one.getLong(1), time, mark)(emit) catch { case e if Rejects.isRowError(e) => out += rejected(rejects.of(row, e)); if (tracing != null) tracing.refused(Rejects.reason(e)) }
      if (tracing != null) tracing.end(matcher)
    }

    def emit(f: Found): Unit = {
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
      } catch { case e if Rejects.isRowError(e) => out += rejected(rejects.of(t.rows(t.row(f.node)), e)) }
    }

    /** What is due by now, whether rows came or not. */
    def pass(): Unit = if (clock != Timing.Unknown) {
      val (due, left) = waiting.span(_.getLong(2) < clock)
      due.foreach(take)
      waiting = left
      matcher.expire(clock)(emit)
      if (tracing != null) tracing.end(matcher)
      val (gone, stay) = matches.partition(_.getLong(1) <= clock)
      gone.foreach(g => out += live.delete(new JoinedRow(key, InternalRow(g.getUTF8String(0))), if (g.isNullAt(2)) null else g.getStruct(2, fold.seen.length)).copy())
      matches = stay
    }

    /** When something is due at the latest; what is only to be forgotten may be so later. */
    private def exact: Long = {
      val turn = if (waiting.isEmpty) Windowed.Never else waiting.head.getLong(2) + 1
      val end = if (matching.ends) over(math.min, Windowed.Never) else Windowed.Never
      matches.foldLeft(math.min(turn, end))((d, s) => math.min(d, s.getLong(1)))
    }
    private def over(which: (Long, Long) => Long, none: Long): Long = matching.within.fold(none) { w =>
      matcher.groups.foldLeft(none)((d, g) => (0 until g.length).foldLeft(d)((x, k) => which(x, matcher.taken.times(g.starts(k)) + w)))
    }

    def store(): Unit = {
      if (matcher.dropped > 0) out += rejected(UTF8String.fromString(Tally.json(p.label, matcher.dropped).toString))
      if (waiting.isEmpty && matches.isEmpty && matcher.groups.isEmpty) { if (stored != null) state.clear() }
      else {
        val due = exact
        val at = if (due != Windowed.Never) Windowed.fires(due) else if (timer != Windowed.Never) timer else { val last = over(math.max, Long.MinValue); if (last == Long.MinValue) Windowed.Never else Windowed.fires(last) }
        if (at < timer) { getHandle.registerTimer(at); timer = at }
        state.update(new GenericInternalRow(Array[Any](timer, pending.pack(waiting)) ++ compact() :+ shown.pack(matches)))
      }
    }

    /** What partial matches hold, and nothing else: rows, their times and marks, nodes, and the partial matches. */
    private def compact(): Array[Any] = {
      val t = matcher.taken
      val (nodeTo, rowTo) = (Array.fill(t.row.length)(-1), Array.fill(t.rows.length)(-1))
      matcher.groups.foreach(g => (0 until g.length).foreach { k =>
        var n = g.nodes(k)
        while (n >= 0 && nodeTo(n) < 0) { nodeTo(n) = 0; rowTo(t.row(n)) = 0; n = t.before(n) }
        rowTo(g.starts(k)) = 0
      })
      def renumber(of: Array[Int]): Array[Int] = { var n = 0; of.indices.filter { i => val used = of(i) >= 0; if (used) { of(i) = n; n += 1 }; used }.toArray }
      val (keptNodes, keptRows) = (renumber(nodeTo), renumber(rowTo))
      val nodes = keptNodes.flatMap(n => Array(rowTo(t.row(n)), t.position(n), if (t.before(n) < 0) -1 else nodeTo(t.before(n))))
      val partials = new ArrayBuffer[Long](matcher.count * 4)
      matcher.groups.foreach(g => (0 until g.length).foreach(k => partials ++= Seq(g.at.toLong, g.alive, nodeTo(g.nodes(k)).toLong, rowTo(g.starts(k)).toLong)))
      Array(rows.pack(ArrayBuffer.from(keptRows.map(t.rows(_)))), UnsafeArrayData.fromPrimitiveArray(keptRows.map(t.times(_))), UnsafeArrayData.fromPrimitiveArray(keptRows.map(t.marks(_))),
        UnsafeArrayData.fromPrimitiveArray(nodes), UnsafeArrayData.fromPrimitiveArray(partials.toArray))
    }
  }

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => rejected(r.getUTF8String(arriving.bad)))
    out.clear()
    val batch = rows.map(r => packed(r).copy(): InternalRow).toArray
    val held = p.held && !arrival
    if (batch.length > 1) java.util.Arrays.sort(batch, Patterned.order(held))
    val work = new Work(key, state.get(), now(times))
    if (held) work.waiting = merged(work.waiting, batch) else batch.foreach(work.take)
    work.pass()
    work.store()
    out.iterator
  }

  /** Both in order of time, what came first before what came later. */
  private def merged(old: ArrayBuffer[InternalRow], fresh: Array[InternalRow]): ArrayBuffer[InternalRow] = {
    val all = new ArrayBuffer[InternalRow](old.length + fresh.length)
    var (i, j) = (0, 0)
    while (i < old.length || j < fresh.length)
      if (j >= fresh.length || (i < old.length && old(i).getLong(2) <= fresh(j).getLong(2))) { all += old(i); i += 1 } else { all += fresh(j); j += 1 }
    all
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val stored = state.get()
    // If there is a later one, what was due has been done when rows came, in this batch.
    if (stored == null || stored.getLong(0) > timer.getExpiryTimeInMs()) return Iterator.empty
    out.clear()
    val work = new Work(key, stored, now(times))
    work.pass()
    work.store()
    out.iterator
  }
}

object Patterned {
  /** By time if rows wait for their turn, then by arrival. */
  private def order(timed: Boolean): java.util.Comparator[InternalRow] = (x, y) => {
    val t = if (timed) java.lang.Long.compare(x.getLong(2), y.getLong(2)) else 0
    if (t != 0) t else java.lang.Long.compare(x.getLong(3), y.getLong(3))
  }
}
