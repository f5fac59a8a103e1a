package org.apache.spark.sql.keyfold.rows.steps

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.{ArrivalCounter, ArrivalOrder, PartitionStep}
import org.apache.spark.sql.keyfold.rows.admission.{Admission, LatenessCheck, RowAdmission, RowGate}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types.LongType

/**
 * Filter and projection: the columns that users see, then the internal columns that go on with them (event
 * time, weight, row id), and the side output. With `stamped`, the order of arrival comes last.
 */
case class StatelessStep(
    gate: RowGate, columns: Seq[Expression], internal: Seq[Expression], lateness: LatenessCheck,
    stamped: Boolean = false, order: Option[ArrivalOrder] = None)
    extends PartitionStep {
  override def stampsArrival: Boolean = stamped
  override def arriving(order: ArrivalOrder): PartitionStep = copy(order = Some(order))
  override def at(watermarkMs: Option[Long]): PartitionStep = copy(lateness = lateness.at(watermarkMs))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new StatelessRows(this, partition, rows)
}

private class StatelessRows(step: StatelessStep, partition: Int, rows: Iterator[InternalRow])
    extends RowIterator {
  import step._
  private val admission = new RowAdmission(gate, Some(lateness), keys = Nil, partition)
  private val arrival =
    if (stamped) Some(AttributeReference("arrival", LongType, nullable = false)()) else None
  private val admitted =
    new UserProjection((columns ++ internal :+ SideOutput.none) ++ arrival, gate.source ++ arrival)
  private lazy val diverted = {
    val side = SideOutput.attribute()
    val blanks = columns.map(c => Literal(null, c.dataType))
    val none = arrival.map(_ => Literal(0L))
    UnsafeProjection.create((blanks ++ internal :+ side) ++ none, gate.source :+ side)
  }
  private val arrivals = new ArrivalCounter(order.getOrElse(ArrivalOrder(partition, Map.empty)))
  private val position = new GenericInternalRow(1)
  private val joined = new JoinedRow

  override protected def advance(): InternalRow = {
    while (rows.hasNext) {
      val found = process(rows.next())
      if (found != null) return found
    }
    if (!counted.hasNext) null
    else diverted(new JoinedRow(new GenericInternalRow(gate.source.length), InternalRow(counted.next())))
  }

  // Computed when all rows are read.
  private lazy val counted = admission.countedRejections().iterator

  private def process(row: InternalRow): InternalRow = {
    val decision = try {
      val begun = admission.begin(row)
      val decided = if (begun eq Admission.Admitted) admission.decide(row, row) else begun
      if (decided eq Admission.Admitted) return admitted(if (stamped) arrived(row) else row)
      decided
    } catch { case e: RowError => admission.reject(row, e) }
    if (decision eq Admission.Filtered) null
    else diverted(new JoinedRow(row, InternalRow(admission.sideOutput)))
  }

  private def arrived(row: InternalRow): InternalRow = {
    position.setLong(0, arrivals.next())
    joined(row, position)
  }
}
