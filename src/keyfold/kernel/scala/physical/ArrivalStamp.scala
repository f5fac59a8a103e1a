package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Adds a row's position in the order of arrival as a last column. */
case class ArrivalStamp(types: Seq[DataType]) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val project = UnsafeProjection.create((types :+ LongType).toArray[DataType])
    val joined = new JoinedRow
    val stamp = new GenericInternalRow(1)
    var n = 0L
    rows.map { row =>
      n += 1
      stamp.setLong(0, ArrivalStamp.place(partition, n))
      project(joined(row, stamp))
    }
  }
}

object ArrivalStamp {
  /** The order of arrival within a batch: by input partition, then by position in it. */
  def place(partition: Int, n: Long): Long = (partition.toLong << 40) | n
}
