package org.apache.spark.sql.keyfold.rows.steps

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.{ArrivalCounter, ArrivalOrder, OrderStamp, PartitionStep}
import org.apache.spark.sql.keyfold.rows.admission.{Admission, LatenessCheck, RowAdmission, RowGate}
import org.apache.spark.sql.keyfold.rows.side_output.{NullKeyPartition, SideOutput, SideOutputBuilder}
import org.apache.spark.sql.types._

/**
 * The rows of a table, one by one: the key, the columns that its folds read, an order stamp (event time,
 * then arrival), the whole row, so that one on which a fold throws can be rejected as
 * it was, and the side output. With `bare` the whole row is left out.
 */
case class KeyedRows(
    gate: RowGate, keys: Seq[Expression], reads: Seq[Expression], time: Option[Expression],
    lateness: Option[LatenessCheck] = None, bare: Boolean = false, order: Option[ArrivalOrder] = None)
    extends PartitionStep {
  override def stampsArrival: Boolean = true
  override def arriving(order: ArrivalOrder): PartitionStep = copy(order = Some(order))
  override def at(watermarkMs: Option[Long]): PartitionStep = copy(lateness = lateness.map(_.at(watermarkMs)))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new KeyedRowIterator(this, partition, rows)

  private[rows] def wholeRow: Seq[Expression] = if (bare) Nil else Seq(SideOutputBuilder.struct(gate.visible))
  /** The types of the columns between `reads` and the side output. */
  def added: Seq[DataType] = OrderStamp.schema +: wholeRow.map(_.dataType)
}

private class KeyedRowIterator(step: KeyedRows, partition: Int, rows: Iterator[InternalRow])
    extends RowIterator {
  import step._
  private val admission = new RowAdmission(gate, lateness, keys, partition)
  private val arrival = AttributeReference("arrival", LongType, nullable = false)()
  private val columns = (keys ++ reads :+ OrderStamp(time, arrival)) ++ wholeRow
  private val admitted = new UserProjection(columns :+ SideOutput.none, gate.source :+ arrival)
  private lazy val undecided = {
    val side = SideOutput.attribute()
    new UserProjection(columns :+ side, gate.source :+ arrival :+ side)
  }
  private val nullKey = new NullKeyPartition(keys.map(_.dataType), reads.map(_.dataType) ++ added)
  private val position = new GenericInternalRow(1)
  private val joined = new JoinedRow
  private val arrivals = new ArrivalCounter(order.getOrElse(ArrivalOrder(partition, Map.empty)))
  /** A row that follows its own side output. */
  private var pending: InternalRow = _

  override protected def advance(): InternalRow = {
    if (pending != null) { val row = pending; pending = null; return row }
    while (rows.hasNext) {
      val row = rows.next()
      position.setLong(0, arrivals.next())
      val found = process(row)
      if (found != null) return found
    }
    if (counted.hasNext) nullKey(counted.next()) else null
  }

  // Computed when all rows are read.
  private lazy val counted = admission.countedRejections().iterator

  private def process(row: InternalRow): InternalRow = {
    val decision = try {
      val begun = admission.begin(row)
      if (begun eq Admission.Admitted) {
        val keyed = admitted(joined(row, position))
        val decided = decide(row, keyed)
        if (decided eq Admission.Admitted) return keyed
        if (decided eq Admission.PartlyLate) pending = keyed
        if (decided eq Admission.Undecided) return undecided(withSideOutput(row))
        decided
      } else begun
    } catch { case e: RowError => admission.reject(row, e) }
    if (decision eq Admission.Filtered) null else nullKey(admission.sideOutput)
  }

  private def decide(row: InternalRow, keyed: InternalRow): Admission = {
    val decided = admission.decide(row, keyed)
    if (decided eq Admission.Admitted) admission.decideText(row, keyed) else decided
  }

  private def withSideOutput(row: InternalRow): InternalRow =
    new JoinedRow(new JoinedRow(row, position), InternalRow(admission.sideOutput))
}
