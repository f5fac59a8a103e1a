package org.apache.spark.sql.keyfold.rows.admission

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, ValidEventTime}
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputBuilder

/**
 * The check of event times against a batch's watermark, for rows with the columns `source`. It runs before
 * the shuffle: once rows are folded together, their raw text is gone.
 */
case class LatenessCheck(
    rule: Option[LatenessRule], source: Seq[Attribute], time: Option[Attribute],
    watermark: Long = EventTime.NoWatermark) {
  /** This check in a batch with this watermark of Spark's. */
  def at(watermarkMs: Option[Long]): LatenessCheck =
    copy(watermark = watermarkMs.fold(EventTime.NoWatermark)(EventTime.watermark))
}

final class LatenessEvaluator(check: LatenessCheck, sideOutputs: SideOutputBuilder) {
  private def indexOf(name: String): Int = check.source.indexWhere(_.name == name)
  private val time = check.time.map(a => check.source.indexWhere(_.exprId == a.exprId)).getOrElse(-1)
  private val (replay, given) = (indexOf(InternalColumns.Replay), indexOf(InternalColumns.Given))
  private val rule: LatenessRuleEvaluator = check.rule.map(_.evaluator(check.source)).orNull
  private val watermark = check.watermark
  private val judges = rule != null && time >= 0 && watermark != EventTime.NoWatermark

  /** Why the row's event time can't be used, or null. */
  def invalid(row: InternalRow): String =
    if (time < 0) null
    else if (!row.isNullAt(time)) { if (rule == null) null else rule.invalid(row, row.getLong(time)) }
    else if (given >= 0 && !row.isNullAt(given)) LatenessCheck.impossible(row.getLong(given))
    // Without a rule, a row without an event time counts as seen now.
    else if (rule == null) null
    else "event time is null"

  /** What the row has missed, or null if it is on time. */
  def of(row: InternalRow): Lateness = if (judges) rule.lateness(row, row.getLong(time), watermark) else null

  /** Whether the row is a late row that is replayed. */
  def isReplayed(row: InternalRow): Boolean = replay >= 0 && !row.isNullAt(replay)

  def sideOutput(row: InternalRow, late: Lateness): InternalRow =
    sideOutputs.late(row, row.getLong(time), watermark, late.missed, late.windows, late.lastEnd)
  def replayed(row: InternalRow): InternalRow =
    sideOutputs.replayed(row, row.getLong(time), row.getLong(replay))
}

object LatenessCheck {
  /** Why `ValidEventTime` does not accept an event time. */
  def impossible(micros: Long): String = {
    val why =
      if (micros < ValidEventTime.Oldest)
        s"not after ${EventTime.text(ValidEventTime.Oldest - 1)}; the usual cause is a clock that was not set"
      else if (micros <= ValidEventTime.Newest) "too far in the future"
      else if (!plausibleAsMillis(micros)) "after the year 9998"
      else "after the year 9998; it looks like epoch milliseconds read as seconds: " +
        "write seconds, or a text such as 2026-01-01T00:00:00Z"
    s"event time ${EventTime.text(micros)} is $why"
  }

  /** Whether the number of seconds, taken as milliseconds, is a time between 1990 and 2100. */
  private def plausibleAsMillis(micros: Long): Boolean =
    micros / 1000 > startOf(1990) && micros / 1000 < startOf(2100)
  private def startOf(year: Int): Long = java.time.LocalDate.ofYearDay(year, 1).toEpochDay * 86400000000L
}
