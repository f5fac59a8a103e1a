package org.apache.spark.sql.keyfold.dedup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.SideOutput
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** How many rows a step has removed, one line for each partition instead of one for each key. */
case class DuplicateCounter(step: String, sideOutput: Int) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = new Iterator[InternalRow] {
    private var (n, ready) = (0L, null: InternalRow)
    override def hasNext: Boolean = { if (ready == null) ready = advance(); ready != null }
    override def next(): InternalRow = { if (!hasNext) throw new NoSuchElementException; val r = ready; ready = null; r }
    private def advance(): InternalRow = {
      while (rows.hasNext) {
        val row = rows.next()
        val side = SideOutput.of(row, sideOutput)
        if (side == null || !SideOutput.isPartialCount(side)) return row
        n += SideOutput.count(side)
      }
      if (n == 0) null else {
        val r = new GenericInternalRow(sideOutput + 1)
        r.update(sideOutput, SideOutput.duplicates(step, n))
        n = 0
        r
      }
    }
  }
}
