package org.apache.spark.sql.keyfold.rows.steps

import org.apache.spark.sql.catalyst.InternalRow

/** An iterator that finds its next row by working through its input, without allocating per row. */
abstract class RowIterator extends Iterator[InternalRow] {
  private var ready: InternalRow = _

  /** The next row; null at the end. */
  protected def advance(): InternalRow

  override final def hasNext: Boolean = {
    if (ready == null) ready = advance()
    ready != null
  }

  override final def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = ready
    ready = null
    row
  }
}
