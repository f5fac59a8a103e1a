package org.apache.spark.sql.keyfold.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.OrderStamp
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder}

/**
 * The columns of a row as it comes through the shuffle: `prefix` columns of the key, perhaps with a pane of
 * time, then
 *  - a partial state to merge (`PartialAggregation`), or
 *  - if `ordered`, the columns that folds read, the order stamp and, unless it is left out, the whole row
 *    (`KeyedRows`), and last the side output.
 */
case class ShuffledRowLayout(input: Seq[Attribute], prefix: Int, ordered: Boolean) {
  val sideOutputAt: Int = input.length - 1
  private val hasWholeRow = ordered && input(sideOutputAt - 1).name == InternalColumns.Whole
  /** The order stamp, a struct of event time and arrival; only if `ordered`. */
  val stamp: Int = if (hasWholeRow) sideOutputAt - 2 else sideOutputAt - 1

  /** What is folded: a partial state, or the columns of a row. */
  def columns: Seq[Attribute] = input.slice(prefix, if (ordered) stamp else sideOutputAt)
  /** What a rejected row is kept as. */
  def rejectedRow: Expression =
    if (hasWholeRow) input(sideOutputAt - 1) else SideOutputBuilder.struct(input.take(sideOutputAt))

  /** The side output of a row, null if it has none. */
  def sideOutput(row: InternalRow): InternalRow = SideOutput.of(row, sideOutputAt)
  /** The event time of a row in microseconds; zero if it has none. */
  def time(row: InternalRow): Long = OrderStamp.micros(row, stamp)
  /** The same as an expression. */
  def micros: Expression = OrderStamp.micros(input(stamp))
}
