package org.apache.spark.sql.keyfold.dedup

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.rows.steps.RowIterator

/** Adds up the duplicates that a step has counted by key: one side output for each partition, at its end. */
case class DuplicateCounter(step: String, sideOutput: Int) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = new RowIterator {
    private var count = 0L

    override protected def advance(): InternalRow = {
      while (rows.hasNext) {
        val row = rows.next()
        val side = SideOutput.of(row, sideOutput)
        if (side == null || !SideOutput.isPartialCount(side)) return row
        count += SideOutput.count(side)
      }
      if (count == 0) null else total()
    }

    private def total(): InternalRow = {
      val row = new GenericInternalRow(sideOutput + 1)
      row.update(sideOutput, SideOutput.duplicates(step, count))
      count = 0
      row
    }
  }
}
