package org.apache.spark.sql.keyfold.rows.admission

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute

/** What happens to a late row beside its entry in the side output. */
sealed trait LateRowHandling
object LateRowHandling {
  /** Nothing: every window of the row is closed. */
  case object Drop extends LateRowHandling
  /** Some of the row's windows are still open: it is folded into those. */
  case object FoldIntoOpenWindows extends LateRowHandling
  /** Only the key's state can tell whether the row is late: it travels alone and carries its side output. */
  case object AskState extends LateRowHandling
}

/**
 * What a late row has missed: how many windows, the first of them as [start, end), and the end of the
 * newest.
 */
case class Lateness(missed: Long, windows: Seq[(Long, Long)], lastEnd: Long, handling: LateRowHandling)

/**
 * Decides, row by row and before the shuffle, whether an operator still accepts an event time. A window
 * kind has one; so do operators that have no windows but drop rows behind the watermark. A table with a
 * rule rejects rows without an event time. Times and watermarks are in microseconds.
 */
trait LatenessRule extends Serializable {
  /** The rule for the rows of one task, whose columns are `source`. */
  def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator
}

trait LatenessRuleEvaluator {
  /** Why the row's event time is unusable here, or null. */
  def invalid(row: InternalRow, time: Long): String = null

  /** What a row has missed, or null if it is on time. Called for every row: only a late row may allocate. */
  def lateness(row: InternalRow, time: Long, watermark: Long): Lateness
}

/** Rows need an event time, but none is too late: what is late depends on the key's state, or nothing is. */
case object NeverLate extends LatenessRule with LatenessRuleEvaluator {
  override def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator = this
  override def lateness(row: InternalRow, time: Long, watermark: Long): Lateness = null
}

/** Rows older than the watermark are late; with `inclusive`, rows as old as the watermark are too. */
case class BehindWatermark(inclusive: Boolean) extends LatenessRule with LatenessRuleEvaluator {
  override def evaluator(source: Seq[Attribute]): LatenessRuleEvaluator = this
  override def lateness(row: InternalRow, time: Long, watermark: Long): Lateness =
    if (time > watermark || (time == watermark && !inclusive)) null
    else Lateness(0, Nil, time, LateRowHandling.Drop)
}
