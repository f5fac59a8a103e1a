package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.types._

/** where and select alone: rows in; out come the columns a user sees, what of keyfold's own goes with them (the event time), and rejections. */
case class StatelessStep(gate: RowGate, columns: Seq[Expression], own: Seq[Expression], timing: LatenessCheck) extends PartitionStep {
  override def at(watermark: Long): PartitionStep = copy(timing = timing.copy(watermark = watermark))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val live = new RowGateEvaluator(gate, partition)
    val timed = new LatenessEvaluator(timing, live.rejects)
    val why = SideOutput.attribute()
    val good = new UserProjection(columns ++ own :+ SideOutput.none, gate.source)
    val bad = UnsafeProjection.create(columns.map(c => Literal(null, c.dataType)) ++ own :+ why, gate.source :+ why)
    val joined = new JoinedRow
    def aside(row: InternalRow, side: InternalRow): InternalRow = bad(joined(row, InternalRow(side)))
    rows.flatMap { row =>
      try {
        val text = live.sideOutput(row)
        val untimely = if (text == null) timed.wrong(row) else null
        if (text != null) Some(aside(row, text))
        else if (!live.passes(row)) None
        else if (untimely != null && live.takenBack(row)) None
        else if (untimely != null) Some(aside(row, live.rejects.rejected(row, untimely)))
        else {
          val late = timed.late(row)
          Some(if (late == null) good(row) else aside(row, late))
        }
      } catch { case e: RowError => if (live.takenBack(row)) None else Some(aside(row, live.rejects.rejected(row, e))) }
    }
  }
}
