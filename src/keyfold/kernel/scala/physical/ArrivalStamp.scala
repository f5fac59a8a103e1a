package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Each row with its place in what arrived: input partition and position. */
case class ArrivalStamp(types: Seq[DataType]) extends PartitionStep {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val project = UnsafeProjection.create((types :+ LongType).toArray[DataType])
    val joined = new JoinedRow
    val at = new GenericInternalRow(1)
    var n = 0L
    rows.map { row => n += 1; at.setLong(0, ArrivalStamp.place(partition, n)); project(joined(row, at)) }
  }
}

object ArrivalStamp {
  /** Of the rows that arrived together, which: input partition, then position. */
  def place(partition: Int, n: Long): Long = (partition.toLong << 40) | n
}
