package org.apache.spark.sql.keyfold.physical

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/** Adds a row's position in the order of arrival as a last column. */
case class ArrivalStamp(types: Seq[DataType], order: Option[ArrivalOrder] = None) extends PartitionStep {
  override def stampsArrival: Boolean = true
  override def arriving(order: ArrivalOrder): PartitionStep = copy(order = Some(order))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val project = UnsafeProjection.create((types :+ LongType).toArray[DataType])
    val joined = new JoinedRow
    val stamp = new GenericInternalRow(1)
    val arrivals = new ArrivalCounter(order.getOrElse(ArrivalOrder(partition, Map.empty)))
    rows.map { row =>
      stamp.setLong(0, arrivals.next())
      project(joined(row, stamp))
    }
  }
}
