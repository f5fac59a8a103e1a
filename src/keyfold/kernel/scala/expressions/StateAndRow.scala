package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}

/**
 * A state of fixed width with a row behind it. Java compiles the getters of Spark's own class for every kind
 * of row that anybody joins, as calls that it can't inline; those here see few kinds, and a state is of one.
 * Types that are rarer are read by Spark's getters. Only `of` sets the rows.
 */
final class StateAndRow extends JoinedRow {
  private var state: UnsafeRow = _
  private var row: InternalRow = _
  private var width = 0

  def of(state: UnsafeRow, row: InternalRow): StateAndRow = {
    this(state, row)
    this.state = state
    this.row = row
    width = state.numFields()
    this
  }

  override def isNullAt(i: Int): Boolean = if (i < width) state.isNullAt(i) else row.isNullAt(i - width)
  override def getBoolean(i: Int): Boolean =
    if (i < width) state.getBoolean(i) else row.getBoolean(i - width)
  override def getInt(i: Int): Int = if (i < width) state.getInt(i) else row.getInt(i - width)
  override def getLong(i: Int): Long = if (i < width) state.getLong(i) else row.getLong(i - width)
  override def getFloat(i: Int): Float = if (i < width) state.getFloat(i) else row.getFloat(i - width)
  override def getDouble(i: Int): Double = if (i < width) state.getDouble(i) else row.getDouble(i - width)
}
