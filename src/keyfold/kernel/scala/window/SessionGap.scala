package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.RefusedException
import org.apache.spark.sql.types._

/** How far apart the rows of a session may be. */
sealed trait SessionGap extends Serializable {
  /** Rows of a key in one pane belong to one session, wherever it starts and ends. */
  def panes: PaneAssigner
  /** When the session of a row alone would end, in microseconds. */
  def end(time: Attribute): Expression
  def lateness(time: Attribute): WindowLateness
  /** The gap as an expression of the user's. */
  def declared: Option[Expression] = None
}

/** One gap for all rows, in microseconds. */
case class ConstantGap(micros: Long) extends SessionGap {
  override def panes: PaneAssigner = GapPanes(micros)
  override def end(time: Attribute): Expression = Add(UnixMicros(time), Literal(micros))
  override def lateness(time: Attribute): WindowLateness = ClosedSession(micros)
}

/** A gap that is computed from each row: `gap` is an interval, or a string that is cast to one. */
case class GapPerRow(gap: Expression) extends SessionGap {
  private val interval: Expression = gap.dataType match {
    case _: DayTimeIntervalType | CalendarIntervalType => gap
    case _: StringType => Cast(gap, CalendarIntervalType)
    case other => throw new RefusedException(
      s"the gap of a session is an interval or a text such as '5 minutes', not ${other.sql}")
  }
  override def panes: PaneAssigner = InstantPanes
  // In UTC, where every day has 24 hours.
  override def end(time: Attribute): Expression =
    UnixMicros(TimestampAddInterval(time, interval, Some("UTC")))
  override def lateness(time: Attribute): WindowLateness = ClosedSessionPerRow(end(time))
  override def declared: Option[Expression] = Some(gap)
}
