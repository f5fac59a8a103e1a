package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

/** What kind of windows a table has; lengths in microseconds. */
sealed trait WindowKind extends Serializable

case class TimeWindow(grid: WindowGrid) extends WindowKind

/** `end`: when a session of a row alone would end, in microseconds. */
case class SessionWindow(cells: PaneAssigner, end: Expression) extends WindowKind

/** The rows of the last `span` up to the newest, whole or in panes, or the last so many. */
case class RollingWindow(span: Option[Long], rows: Option[Int], pane: Option[Long]) extends WindowKind

/** No windows, but what is older than the watermark is late, and with `at` what is as old. */
case class WatermarkBound(at: Boolean) extends WindowKind

/** No windows, and no row is late, but each has a time. */
case object TimedRows extends WindowKind
