package org.apache.spark.sql.keyfold.rows.admission

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.RowError
import org.apache.spark.sql.keyfold.rows.side_output.{RejectionLimit, SideOutput}

/** What becomes of a row before the shuffle. */
sealed abstract class Admission

object Admission {
  /** The row is processed. */
  case object Admitted extends Admission
  /** A condition is not true for the row, or it retracts a row that was rejected. */
  case object Filtered extends Admission
  /** The row is not processed; it has a side output. */
  case object Diverted extends Admission
  /** Some windows of the row have closed: it is processed, and has a side output too. */
  case object PartlyLate extends Admission
  /** Only the key's state knows what the row is late for: it travels by itself, with its side output. */
  case object Undecided extends Admission
}

/**
 * Decides which rows a step processes: those that parse, pass the conditions, have a usable event time and
 * a key, and are not late, checked in this order. A step calls `begin`; for an admitted row it computes the
 * key and calls `decide`. If evaluation of a user's expression throws, it calls `reject`. One object serves
 * the rows of one task.
 */
final class RowAdmission(gate: RowGate, check: Option[LatenessCheck], keys: Seq[Expression], partition: Int) {
  import Admission._

  private val gateEvaluator = new RowGateEvaluator(gate, partition)
  private val lateness = check.map(new LatenessEvaluator(_, gateEvaluator.sideOutputs)).orNull
  private val keyValidation = new KeyValidation(keys)
  private val limit = new RejectionLimit(gate.maxRejected, gate.origin.stream)
  private var side: InternalRow = _

  /** The side output of the last row that was diverted, partly late or undecided. */
  def sideOutput: InternalRow = side

  /** Gate and event time. */
  def begin(row: InternalRow): Admission = {
    val found = gateEvaluator.sideOutput(row)
    if (found != null) { if (isKept(found)) divert(found) else Filtered }
    else if (!gateEvaluator.passes(row)) Filtered
    else {
      val reason = if (lateness == null) null else lateness.invalid(row)
      if (reason == null) Admitted else reject(row, reason)
    }
  }

  /**
   * Key and lateness of a row that `begin` has admitted; `keyed` begins with its key. Whether the key is
   * valid text is checked for late and replayed rows alone: see `decideText`.
   */
  def decide(row: InternalRow, keyed: InternalRow): Admission = {
    val missing = keyValidation.missing(keyed)
    if (missing != null) reject(row, missing)
    else if (lateness == null) Admitted
    else if (lateness.isReplayed(row)) decideLate(row, keyed, null)
    else {
      val late = lateness.of(row)
      if (late == null) Admitted else decideLate(row, keyed, late)
    }
  }

  /** Whether the key of an admitted row is valid text. The answer is the same for all rows of a key. */
  def decideText(row: InternalRow, keyed: InternalRow): Admission = {
    val invalidText = keyValidation.invalidText(keyed)
    if (invalidText == null) Admitted else reject(row, invalidText)
  }

  /** `late` is null for a replayed row. */
  private def decideLate(row: InternalRow, keyed: InternalRow, late: Lateness): Admission = {
    val text = decideText(row, keyed)
    if (text ne Admitted) return text
    side = if (late == null) lateness.replayed(row) else lateness.sideOutput(row, late)
    if (late == null) Undecided
    else late.handling match {
      case LateRowHandling.Drop => Diverted
      case LateRowHandling.FoldIntoOpenWindows => PartlyLate
      case LateRowHandling.AskState => Undecided
    }
  }

  /**
   * The row is rejected, unless it is a retraction: the row that it retracts was rejected when it arrived.
   */
  def reject(row: InternalRow, reason: String): Admission =
    if (gateEvaluator.isRetraction(row) || (gate.keepRejected && !limit.keeps(reason))) Filtered
    else divert(gateEvaluator.sideOutputs.rejected(row, reason))

  def reject(row: InternalRow, error: RowError): Admission = reject(row, RowError.reason(error))

  /** Late rows, duplicates, files and counts pass; rejected rows do up to the limit. */
  private def isKept(found: InternalRow): Boolean =
    !SideOutput.isRejectedRow(found) || limit.keeps(SideOutput.reason(found))

  /** After the last row: the side outputs that count rejected rows which were not kept. */
  def countedRejections(): Seq[InternalRow] = limit.drain()

  private def divert(found: InternalRow): Admission = {
    side = found
    Diverted
  }
}
