package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.admission.{LatenessRule, NeverLate}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout}
import org.apache.spark.sql.types.{LongType, TimestampType}

/**
 * When a table's windows emit, and for how many microseconds closed windows are kept, open to replays alone.
 */
case class WindowEmission(changes: Boolean, keep: Option[Long])

/**
 * What a processor is built from. `columns`: those that rows, or partial states, have between key and stamps.
 */
case class ProcessorParts(
    fold: AggregateFold,
    layout: ShuffledRowLayout,
    columns: Seq[Attribute],
    sideOutput: SideOutputSettings,
    ttlMs: Option[Long])

/** The kind of windows a table has, and all that differs between kinds. Lengths are in microseconds. */
sealed trait WindowKind extends Serializable {
  /**
   * The panes in which a key's rows are pre-aggregated before the shuffle; None: rows are sent one by one.
   */
  def panes: Option[PaneAssigner]

  /** Which rows are late, as far as that is known before the shuffle. */
  def lateness: LatenessRule

  /**
   * The fold of the table's columns with what the windows keep beside them; the bounds are part of the key.
   */
  def extend(fold: AggregateFold): AggregateFold

  def processor(parts: ProcessorParts): KeyedProcessor

  /** Whether windows close when the watermark passes their end. */
  def closes: Boolean = false

  /** The gap of each row, where the user declared it as an expression. */
  def gapExpression: Option[Expression] = None
}

/** Windows that close. Their bounds are columns of the table. */
sealed trait ClosingWindow extends WindowKind {
  override def closes: Boolean = true
  def emitting(emission: WindowEmission): ClosingWindow

  protected def withBounds(fold: AggregateFold): AggregateFold = fold.copy(keys = fold.keys ++
    Seq("window_start", "window_end").map(AttributeReference(_, TimestampType, nullable = false)()))
}

object ClosingWindow {
  val DefaultEmission: WindowEmission = WindowEmission(changes = true, keep = None)
}

/** Tumbling and sliding windows. */
case class TimeWindow(
    grid: WindowGrid,
    time: Attribute,
    emission: WindowEmission = ClosingWindow.DefaultEmission) extends ClosingWindow {
  override def panes: Option[PaneAssigner] = Some(grid)
  override def lateness: LatenessRule = ClosedTimeWindows(grid)
  override def extend(fold: AggregateFold): AggregateFold =
    withBounds(fold ++ AggregateFold.start(PaneOf(time, grid)))
  override def emitting(emission: WindowEmission): TimeWindow = copy(emission = emission)
  override def processor(parts: ProcessorParts): KeyedProcessor =
    new TimeWindowProcessor(parts.fold, parts.layout, parts.sideOutput, emission, grid)
}

/** Sessions: rows of a key whose times are no further apart than a gap. */
case class SessionWindow(
    gap: SessionGap,
    time: Attribute,
    emission: WindowEmission = ClosingWindow.DefaultEmission) extends ClosingWindow {
  override def panes: Option[PaneAssigner] = Some(gap.panes)
  override def lateness: LatenessRule = gap.lateness(time)
  override def extend(fold: AggregateFold): AggregateFold =
    withBounds(fold ++ AggregateFold.start(UnixMicros(time)) ++ AggregateFold.end(gap.end(time)))
  override def emitting(emission: WindowEmission): SessionWindow = copy(emission = emission)
  override def processor(parts: ProcessorParts): KeyedProcessor =
    new SessionWindowProcessor(parts.fold, parts.layout, parts.sideOutput, emission)
  override def gapExpression: Option[Expression] = gap.declared
}

/** The last `span` up to a key's newest row, in whole rows or in panes, or its last `rows` rows. */
case class RollingWindow(span: Option[Long], rows: Option[Int], pane: Option[Long], time: Option[Attribute])
    extends WindowKind {
  override def panes: Option[PaneAssigner] = None
  /** A row that is behind the window of its key is late, which only the key's state knows. */
  override def lateness: LatenessRule = NeverLate
  override def extend(fold: AggregateFold): AggregateFold = pane.fold(fold) { width =>
    fold ++ AggregateFold.start(PaneOf(time.get, WindowGrid(width, width, 0, None)))
  }

  override def processor(parts: ProcessorParts): KeyedProcessor = {
    val retained = AttributeReference(InternalColumns.Time, LongType)() +: parts.columns
    // Panes are folded from rows as they come, retained rows from what is retained of them.
    val fold = if (pane.isDefined) parts.fold else parts.fold.reading(retained)(identity)
    new RollingWindowProcessor(fold, parts.layout, parts.sideOutput, this, retained, parts.ttlMs)
  }
}
