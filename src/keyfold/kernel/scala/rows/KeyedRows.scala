package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{RowError, UserProjection}
import org.apache.spark.sql.keyfold.physical.{ArrivalStamp, PartitionStep}
import org.apache.spark.sql.types._

/**
 * The rows of a table, one by one: the key, what its folds read, an order stamp (event time, then input partition and position), and the whole row, so that
 * one on which a fold throws can be kept as it came; `bare` leaves that out.
 */
case class KeyedRows(gate: RowGate, keys: Seq[Expression], reads: Seq[Expression], time: Option[Expression], timing: Option[LatenessCheck] = None, bare: Boolean = false) extends PartitionStep {
  override def at(watermark: Long): PartitionStep = copy(timing = timing.map(_.copy(watermark = watermark)))
  private def whole: Seq[Expression] = if (bare) Nil else Seq(CreateNamedStruct(gate.visible.flatMap(a => Seq(Literal(a.name), a))))
  def added: Seq[DataType] = KeyedRows.stampType +: whole.map(_.dataType)

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val live = new RowGateEvaluator(gate, partition)
    val at = AttributeReference("at", LongType, nullable = false)()
    val stamp = CreateNamedStruct(Seq(Literal("time"), time.getOrElse(Literal(null, TimestampType)), Literal("arrival"), at))
    val carried = SideOutput.attribute()
    val good = new UserProjection(((keys ++ reads :+ stamp) ++ whole) :+ carried, gate.source :+ at :+ carried)
    val timed = timing.map(new LatenessEvaluator(_, live.rejects)).orNull
    val lane = new NullKeyPartition(keys.map(_.dataType), reads.map(_.dataType) ++ added)
    val key = new KeyValidation(keys)
    val position = new GenericInternalRow(2)
    val joined = new JoinedRow
    var n = 0L
    rows.flatMap { row =>
      n += 1
      try {
        val why = live.sideOutput(row)
        if (why != null) Some(lane(why))
        else if (!live.passes(row)) None
        else {
          val untimely = if (timed == null) null else timed.wrong(row)
          val text = if (timed == null || untimely != null) null else timed.late(row)
          position.update(0, ArrivalStamp.place(partition, n))
          position.update(1, if (text != null && timed.alone(row)) text else null)
          val r = good(joined(row, position))
          val wrong = if (untimely != null) untimely else key.wrong(r)
          if (wrong != null && live.takenBack(row)) None
          else if (wrong != null) Some(lane(live.rejects.rejected(row, wrong)))
          else if (text == null || timed.alone(row)) Some(r)
          else if (timed.open(row)) Seq(lane(text), r)
          else Some(lane(text))
        }
      } catch { case e: RowError => if (live.takenBack(row)) None else Some(lane(live.rejects.rejected(row, e))) }
    }
  }
}

object KeyedRows {
  val stampType: StructType = new StructType().add("time", TimestampType).add("arrival", LongType)
}
