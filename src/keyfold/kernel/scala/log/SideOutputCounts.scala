package org.apache.spark.sql.keyfold.log

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.rows.side_output.{RejectionKind, SideOutput}

/** How many rows were rejected for reasons of one kind, and one of these reasons. */
case class RejectionReason(kind: String, rows: Long, example: String)

/**
 * How many rows of each kind a batch, or a task, has; every one is counted, whether it is kept or not.
 * Partial matches that were dropped are counted too, though they are no rows.
 */
case class RowCounts(
    change: Long, late: Long, rejected: Long, duplicate: Long, droppedPartial: Long,
    reasons: Seq[RejectionReason])

/** Counts changes and side outputs. */
class SideOutputCounts {
  private var change, late, rejected, duplicate, droppedPartial = 0L
  private val reasons = mutable.LinkedHashMap.empty[String, RejectionReason]

  def addChange(): Unit = change += 1

  def addLate(): Unit = late += 1

  def addDuplicates(side: InternalRow): Unit = duplicate += SideOutput.count(side)

  def addDroppedPartials(side: InternalRow): Unit = droppedPartial += SideOutput.count(side)

  def addRejected(side: InternalRow): Unit = {
    val rows = SideOutput.rejectedRows(side)
    rejected += rows
    val reason = SideOutput.reason(side)
    addReason(RejectionReason(RejectionKind.of(reason), rows, reason))
  }

  /** A file that is rejected as a whole is one entry; its reason counts all of its rows. */
  def addRejectedFile(side: InternalRow): Unit = {
    rejected += 1
    addReason(RejectionReason("header", SideOutput.count(side).max(1L), SideOutput.reason(side)))
  }

  def add(other: RowCounts): Unit = {
    change += other.change
    late += other.late
    rejected += other.rejected
    duplicate += other.duplicate
    droppedPartial += other.droppedPartial
    other.reasons.foreach(addReason)
  }

  private def addReason(more: RejectionReason): Unit = reasons.get(more.kind) match {
    case Some(known) => reasons(more.kind) = known.copy(rows = known.rows + more.rows)
    case None => if (reasons.size < SideOutputCounts.MaxReasons) reasons(more.kind) = more
  }

  def result: RowCounts =
    RowCounts(change, late, rejected, duplicate, droppedPartial, reasons.values.toSeq)
}

object SideOutputCounts {
  /** At most this many kinds of reasons are told apart in a batch. */
  val MaxReasons = 1000
}
