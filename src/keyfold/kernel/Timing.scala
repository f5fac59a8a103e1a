package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.streaming.TimerValues
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What kind of windows a table has; lengths in microseconds. */
sealed trait Window extends Serializable
case class Panes(grid: Grid) extends Window
/** `end`: when a session of a row alone would end, in microseconds. */
case class Sessions(cells: Cells, end: Expression) extends Window
/** The rows of the last `span` up to the newest, whole or in panes, or the last so many. */
case class Recently(span: Option[Long], rows: Option[Int], pane: Option[Long]) extends Window
/** No windows, but what is older than the watermark is late, and with `at` what is as old. */
case class Bound(at: Boolean) extends Window

/** No windows, and no row is late, but each has a time. */
case object Timed extends Window

/** What a row's event time means to a table that looks at it, before the shuffle: once rows are folded together, their text is gone. */
case class Timing(window: Option[Window], source: Seq[Attribute], time: Option[Attribute], watermark: Long = Timing.Unknown)

class LiveTiming(t: Timing, rejects: Rejects) {
  private val time = t.time.map(a => t.source.indexWhere(_.exprId == a.exprId)).getOrElse(-1)
  private val replay = t.source.indexWhere(_.name == Names.Replay)
  private val known = t.source.indexWhere(_.name == Names.Given)
  private val window: Window = t.window.orNull
  private val end = window match { case Sessions(_: Spans, _) => null; case s: Sessions => new Projecting(Seq(s.end), t.source); case _ => null }
  private def endOf(row: InternalRow, at: Long): Long = window match { case Sessions(Spans(gap), _) => at + gap; case _ => end(row).getLong(0) }

  /** Why the row's time can't be used, or null. */
  def wrong(row: InternalRow): String = {
    if (time < 0) return null
    if (row.isNullAt(time)) {
      if (known >= 0 && !row.isNullAt(known)) return Timing.impossible(row.getLong(known))
      // Without windows a row without a time was seen now.
      return if (window == null) null else "event time is null"
    }
    if (window == null) return null
    if (end == null) return null
    val at = row.getLong(time)
    val e = end(row)
    if (e.isNullAt(0)) "the gap of the session is null, or a text that is no interval" else if (e.getLong(0) < at + 1000) "the gap of the session is less than a millisecond" else null
  }

  /**
   * How the row goes on: null as all do; else the text it carries. A row whose windows are all closed is set aside with it; one that may be late, which only the
   * key's state can tell, or that is replayed, goes on alone.
   */
  def late(row: InternalRow): UTF8String = {
    if (replay >= 0 && !row.isNullAt(replay)) return rejects.again(row, row.getLong(time), row.getLong(replay))
    if (t.watermark == Timing.Unknown) return null
    val at = if (time < 0) Long.MaxValue else row.getLong(time)
    if (at > t.watermark || (at == t.watermark && !window.isInstanceOf[Bound])) return null
    window match {
      case Bound(same) => if (at < t.watermark || same) rejects.late(row, at, t.watermark, 0, Nil, at) else null
      case Panes(g) if g.end(g.first(at)) <= t.watermark =>
        val from = g.first(at)
        val closed = math.min(g.last(at), g.ends.index(t.watermark))
        val windows = (from to math.min(closed, from + Timing.Listed - 1)).map(k => (g.start(k), g.end(k)))
        rejects.late(row, at, t.watermark, closed - from + 1, windows, g.end(closed))
      case _: Sessions =>
        val e = endOf(row, at)
        if (e <= t.watermark) rejects.late(row, at, t.watermark, 1, Seq((at, e)), e) else null
      case _ => null
    }
  }

  /** Whether some windows of a row are open still. */
  def open(row: InternalRow): Boolean = window match {
    case Panes(g) => val at = row.getLong(time); g.end(g.last(at)) > t.watermark
    case _ => false
  }

  /** Whether a row that `late` has a text for goes on alone, for the state to decide. */
  def alone(row: InternalRow): Boolean = (replay >= 0 && !row.isNullAt(replay)) || window.isInstanceOf[Sessions]
}

object Timing {
  val Unknown: Long = Long.MinValue
  /** A late row lists at most so many of the windows it missed. */
  val Listed = 100
  /** Why a time that a stream does not take was not taken; `Usable` says which those are. */
  def impossible(micros: Long): String = {
    val why =
      if (micros < Usable.Oldest) s"not after ${text(Usable.Oldest - 1)}; the usual cause is a clock that was not set"
      else if (micros <= Usable.Newest) "too far in the future"
      else if (!asMilliseconds(micros)) "after the year 9998"
      else "after the year 9998; it looks like epoch milliseconds read as seconds: " +
        "write seconds, or a text such as 2026-01-01T00:00:00Z"
    s"event time ${text(micros)} is $why"
  }
  /** Whether a number of seconds would be a time of our days if they were milliseconds. */
  private def asMilliseconds(micros: Long): Boolean = micros / 1000 > start(1990) && micros / 1000 < start(2100)
  private def start(year: Int): Long = java.time.LocalDate.ofYearDay(year, 1).toEpochDay * 86400000000L
  def text(micros: Long): String = java.time.Instant.EPOCH.plus(micros, java.time.temporal.ChronoUnit.MICROS).toString
  /** Before the first watermark Spark says zero. */
  def micros(watermarkMs: Long): Long = if (watermarkMs <= 0) Unknown else watermarkMs * 1000
  /** Whether a timer's tick has come; it then fires in this batch, and is as good as gone. */
  def come(tick: Long, clock: Long): Boolean = clock != Unknown && tick <= Math.floorDiv(clock, 1000L)
  /** What time it is for a stateful part: that of the batch, or the watermark. */
  def now(times: TimerValues, arrival: Boolean): Long = if (arrival) times.getCurrentProcessingTimeInMs() * 1000 else micros(times.getCurrentWatermarkInMs())
}

/**
 * A time if it is one that can be: after the start of 1970, up to the year 9998, and no more than `ahead` microseconds after the batch's clock; else null. The clock is handed to the
 * generated code and not written into it, since other code for each batch would have to be compiled and warmed up for each.
 */
case class Usable(time: Expression, clock: Expression, ahead: Option[Long]) extends BinaryExpression {
  override def left: Expression = time
  override def right: Expression = clock
  override def dataType: DataType = TimestampType
  override def nullable: Boolean = true
  private def limit: Long = ahead.fold(Usable.Newest)(a => math.min(Usable.Newest, clock.eval().asInstanceOf[Long] + a))
  override def eval(row: InternalRow): Any = {
    val t = time.eval(row)
    if (t == null || t.asInstanceOf[Long] < Usable.Oldest || t.asInstanceOf[Long] > limit) null else t
  }
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val t = time.genCode(ctx)
    val most = ctx.addReferenceObj("limit", new Limit(limit), classOf[Limit].getName)
    ev.copy(code = t.code + code"""
      final boolean ${ev.isNull} = ${t.isNull} || ${t.value} < ${Usable.Oldest}L || ${t.value} > $most.micros();
      final long ${ev.value} = ${t.value};""")
  }
  override protected def withNewChildrenInternal(t: Expression, c: Expression): Expression = copy(time = t, clock = c)
}

class Limit(val micros: Long) extends Serializable

object Usable {
  /** Spark's watermark begins at 1970-01-01T00:00:00Z: what is not after it would be late, or dropped, before any row was seen. */
  val Oldest = 1L
  /** Views know no year after 9999. */
  val Newest: Long = java.time.Instant.parse("9999-01-01T00:00:00Z").getEpochSecond * 1000000L - 1
}
