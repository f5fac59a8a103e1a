package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.keyfold.expressions.UserProjection
import org.apache.spark.sql.keyfold.rows.admission.{LateRowHandling, Lateness, LatenessRule}
import org.apache.spark.sql.keyfold.rows.admission.LatenessRuleEvaluator
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput

/** Which rows are late for windows that close, as far as that is known before the shuffle. */
sealed trait WindowLateness extends LatenessRule

/** A row is late for its windows that have ended; some of a sliding row's windows may still be open. */
case class ClosedTimeWindows(grid: WindowGrid) extends WindowLateness with LatenessRuleEvaluator {
  override def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator = this

  override def lateness(row: InternalRow, time: Long, watermark: Long): Lateness =
    if (time >= watermark || grid.end(grid.first(time)) > watermark) null else missed(time, watermark)

  private def missed(time: Long, watermark: Long): Lateness = {
    val (first, last) = (grid.first(time), grid.last(time))
    val closed = math.min(last, grid.ends.index(watermark))
    val listed = first to math.min(closed, first + SideOutput.MaxWindows - 1)
    val handling =
      if (grid.end(last) > watermark) LateRowHandling.FoldIntoOpenWindows else LateRowHandling.Drop
    Lateness(closed - first + 1, listed.map(k => (grid.start(k), grid.end(k))), grid.end(closed), handling)
  }
}

/**
 * A row that alone would be a closed session is late unless it joins an open one, which only the key's state
 * knows.
 */
case class ClosedSession(gap: Long) extends WindowLateness with LatenessRuleEvaluator {
  override def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator = this
  override def lateness(row: InternalRow, time: Long, watermark: Long): Lateness =
    if (time >= watermark) null else ClosedSession.lateness(time, time + gap, watermark)
}

object ClosedSession {
  def lateness(start: Long, end: Long, watermark: Long): Lateness =
    if (end > watermark) null else Lateness(1, Seq((start, end)), end, LateRowHandling.AskState)
}

/** As `ClosedSession`, where each row has a gap of its own: `end` is when the row's session would end. */
case class ClosedSessionPerRow(end: Expression) extends WindowLateness {
  override def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator = new LatenessRuleEvaluator {
    private val ends = new UserProjection(Seq(end), source)

    override def invalid(row: InternalRow, time: Long): String = {
      val found = ends(row)
      if (found.isNullAt(0)) "the session gap is null, or a string that is not an interval"
      else if (found.getLong(0) < time + 1000) "the gap of the session is less than a millisecond"
      else null
    }

    override def lateness(row: InternalRow, time: Long, watermark: Long): Lateness =
      if (time >= watermark) null else ClosedSession.lateness(time, ends(row).getLong(0), watermark)
  }
}
