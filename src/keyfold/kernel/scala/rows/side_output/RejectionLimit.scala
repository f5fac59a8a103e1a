package org.apache.spark.sql.keyfold.rows.side_output

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow

/**
 * How many rejected rows of a partition are kept. A stream that turns bad would otherwise send all of its
 * rows, as text, to one task behind the shuffle. Rows beyond the limit are counted by the kind of their
 * reason, and the counts are side outputs of their own.
 */
final class RejectionLimit(most: Int, stream: Option[String]) {
  private var kept = 0L
  private val counted = mutable.LinkedHashMap.empty[String, (String, Long)]

  /** Whether another rejected row is kept; else it is counted. */
  def keeps(reason: => String): Boolean = {
    kept += 1
    kept <= most || { count(reason); false }
  }

  private def count(reason: String): Unit = {
    val kind = RejectionKind.of(reason)
    val known = counted.size < RejectionLimit.MaxKinds || counted.contains(kind)
    val (example, rows) = counted.getOrElse(if (known) kind else "", (reason, 0L))
    counted(if (known) kind else "") = (example, rows + 1)
  }

  /** The side outputs that stand for the rows that were not kept, once. */
  def drain(): Seq[InternalRow] = {
    val found = counted.values.map { case (reason, rows) => SideOutput.rejectedCount(reason, stream, rows) }
    val result = found.toSeq
    counted.clear()
    result
  }
}

object RejectionLimit {
  /** Rows of a partition that are kept, unless a session sets `spark.keyfold.rejectedRows`. */
  val Default = 10000
  /** At most this many kinds of reasons are told apart. */
  val MaxKinds = 1000
}
