package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, UserProjection, ValidEventTime}
import org.apache.spark.sql.keyfold.window.{GapPanes, SessionWindow, TimeWindow, WatermarkBound, WindowKind}
import org.apache.spark.sql.streaming.TimerValues
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What a row's event time means to a table that looks at it, before the shuffle: once rows are folded together, their text is gone. */
case class LatenessCheck(window: Option[WindowKind], source: Seq[Attribute], time: Option[Attribute], watermark: Long = LatenessCheck.Unknown)

class LatenessEvaluator(t: LatenessCheck, rejects: SideOutput) {
  private val time = t.time.map(a => t.source.indexWhere(_.exprId == a.exprId)).getOrElse(-1)
  private val replay = t.source.indexWhere(_.name == InternalColumns.Replay)
  private val known = t.source.indexWhere(_.name == InternalColumns.Given)
  private val window: WindowKind = t.window.orNull
  private val end = window match { case SessionWindow(_: GapPanes, _) => null; case s: SessionWindow => new UserProjection(Seq(s.end), t.source); case _ => null }
  private def endOf(row: InternalRow, at: Long): Long = window match { case SessionWindow(GapPanes(gap), _) => at + gap; case _ => end(row).getLong(0) }

  /** Why the row's time can't be used, or null. */
  def wrong(row: InternalRow): String = {
    if (time < 0) return null
    if (row.isNullAt(time)) {
      if (known >= 0 && !row.isNullAt(known)) return LatenessCheck.impossible(row.getLong(known))
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
    if (t.watermark == LatenessCheck.Unknown) return null
    val at = if (time < 0) Long.MaxValue else row.getLong(time)
    if (at > t.watermark || (at == t.watermark && !window.isInstanceOf[WatermarkBound])) return null
    window match {
      case WatermarkBound(same) => if (at < t.watermark || same) rejects.late(row, at, t.watermark, 0, Nil, at) else null
      case TimeWindow(g) if g.end(g.first(at)) <= t.watermark =>
        val from = g.first(at)
        val closed = math.min(g.last(at), g.ends.index(t.watermark))
        val windows = (from to math.min(closed, from + LatenessCheck.Listed - 1)).map(k => (g.start(k), g.end(k)))
        rejects.late(row, at, t.watermark, closed - from + 1, windows, g.end(closed))
      case _: SessionWindow =>
        val e = endOf(row, at)
        if (e <= t.watermark) rejects.late(row, at, t.watermark, 1, Seq((at, e)), e) else null
      case _ => null
    }
  }

  /** Whether some windows of a row are open still. */
  def open(row: InternalRow): Boolean = window match {
    case TimeWindow(g) => val at = row.getLong(time); g.end(g.last(at)) > t.watermark
    case _ => false
  }

  /** Whether a row that `late` has a text for goes on alone, for the state to decide. */
  def alone(row: InternalRow): Boolean = (replay >= 0 && !row.isNullAt(replay)) || window.isInstanceOf[SessionWindow]
}

object LatenessCheck {
  val Unknown: Long = Long.MinValue
  /** A late row lists at most so many of the windows it missed. */
  val Listed = 100
  /** Why a time that a stream does not take was not taken; `ValidEventTime` says which those are. */
  def impossible(micros: Long): String = {
    val why =
      if (micros < ValidEventTime.Oldest) s"not after ${text(ValidEventTime.Oldest - 1)}; the usual cause is a clock that was not set"
      else if (micros <= ValidEventTime.Newest) "too far in the future"
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
