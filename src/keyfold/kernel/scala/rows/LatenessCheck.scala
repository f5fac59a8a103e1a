package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, ValidEventTime}
import org.apache.spark.sql.types._

/** What a row's event time means to a table that looks at it, before the shuffle: once rows are folded together, their text is gone. */
case class LatenessCheck(
    rule: Option[LatenessRule], source: Seq[Attribute], time: Option[Attribute], watermark: Long = EventTime.NoWatermark)

class LatenessEvaluator(t: LatenessCheck, rejects: SideOutputBuilder) {
  private val time = t.time.map(a => t.source.indexWhere(_.exprId == a.exprId)).getOrElse(-1)
  private val replay = t.source.indexWhere(_.name == InternalColumns.Replay)
  private val known = t.source.indexWhere(_.name == InternalColumns.Given)
  private val rule: LatenessRuleEvaluator = t.rule.map(_.evaluator(t.source)).orNull

  /** Why the row's time can't be used, or null. */
  def wrong(row: InternalRow): String = {
    if (time < 0) return null
    if (row.isNullAt(time)) {
      if (known >= 0 && !row.isNullAt(known)) return LatenessCheck.impossible(row.getLong(known))
      // Without a rule a row without a time was seen now.
      return if (rule == null) null else "event time is null"
    }
    if (rule == null) null else rule.invalid(row, row.getLong(time))
  }

  /** The side output of a row that is late, may be late or is replayed; null for a row on time. */
  def late(row: InternalRow): InternalRow = {
    if (replayed(row)) return rejects.replayed(row, row.getLong(time), row.getLong(replay))
    val found = lateness(row)
    if (found == null) null
    else rejects.late(row, row.getLong(time), t.watermark, found.missed, found.windows, found.lastEnd)
  }

  /** Whether some windows of a late row are still open. */
  def open(row: InternalRow): Boolean = lateness(row).handling == LateRowHandling.FoldIntoOpenWindows

  /** Whether a row with a side output travels alone, for the key's state to decide. */
  def alone(row: InternalRow): Boolean = replayed(row) || lateness(row).handling == LateRowHandling.AskState

  private def replayed(row: InternalRow): Boolean = replay >= 0 && !row.isNullAt(replay)

  private def lateness(row: InternalRow): Lateness =
    if (rule == null || time < 0 || t.watermark == EventTime.NoWatermark) null
    else rule.lateness(row, row.getLong(time), t.watermark)
}

object LatenessCheck {
  /** Why a time that a stream does not take was not taken; `ValidEventTime` says which those are. */
  def impossible(micros: Long): String = {
    val why =
      if (micros < ValidEventTime.Oldest) s"not after ${EventTime.text(ValidEventTime.Oldest - 1)}; the usual cause is a clock that was not set"
      else if (micros <= ValidEventTime.Newest) "too far in the future"
      else if (!asMilliseconds(micros)) "after the year 9998"
      else "after the year 9998; it looks like epoch milliseconds read as seconds: " +
        "write seconds, or a text such as 2026-01-01T00:00:00Z"
    s"event time ${EventTime.text(micros)} is $why"
  }
  /** Whether a number of seconds would be a time of our days if they were milliseconds. */
  private def asMilliseconds(micros: Long): Boolean = micros / 1000 > start(1990) && micros / 1000 < start(2100)
  private def start(year: Int): Long = java.time.LocalDate.ofYearDay(year, 1).toEpochDay * 86400000000L
}
