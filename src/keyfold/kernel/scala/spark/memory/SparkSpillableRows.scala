package org.apache.spark.sql.keyfold.spark.memory

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray

/** Rows of one task, in memory up to a number of rows and of bytes; then they spill to disk. */
class SparkSpillableRows(maxRowsInMemory: Int, maxBytesInMemory: Long) {
  private val rows = new ExternalAppendOnlyUnsafeRowArray(
    maxRowsInMemory, maxBytesInMemory, Int.MaxValue, Long.MaxValue)

  /** Adds a copy of the row. */
  def add(row: UnsafeRow): Unit = rows.add(row)

  def iterator: Iterator[UnsafeRow] = rows.generateIterator()
}
