package org.apache.spark.sql.keyfold.rows.admission

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, UserPredicate}
import org.apache.spark.sql.keyfold.rows.parsing.{ParseFailure, RowOrigin}
import org.apache.spark.sql.keyfold.rows.side_output.{RejectionLimit, SideOutput, SideOutputSettings}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The first checks of a row: whether it could be parsed, and the user's conditions in the order of
 * declaration. `keepControl`: rows that only advance event time pass, since others are to read them.
 */
case class RowGate(
    source: Seq[Attribute], conditions: Seq[Expression], keepRejected: Boolean, zone: String,
    origin: RowOrigin, maxRejected: Int = RejectionLimit.Default, keepControl: Boolean = false) {
  def sideOutputs: SideOutputSettings = SideOutputSettings(keepRejected, zone, origin.stream)
  /** The columns that users see. */
  def visible: Seq[Attribute] = source.filterNot(a => InternalColumns.hidden(a.name))
  def index(name: String): Int = source.indexWhere(_.name == name)
  /** Explains texts that are no rows. */
  def failure: ParseFailure =
    origin.format.fold[ParseFailure](ParseFailure.Unknown)(_.failure(source, origin.options, zone))
}

final class RowGateEvaluator(gate: RowGate, partition: Int) {
  val sideOutputs = new SourceSideOutputBuilder(gate)
  private val conditions = gate.conditions.map(new UserPredicate(_, gate.source, partition)).toArray
  private val (side, raw) = (gate.index(InternalColumns.SideOutput), gate.index(InternalColumns.Raw))
  private val (control, weight) = (gate.index(InternalColumns.Control), gate.index(InternalColumns.Weight))

  /** Whether the row retracts an earlier one. */
  def isRetraction(row: InternalRow): Boolean = weight >= 0 && row.getInt(weight) < 0

  /**
   * The side output that an earlier step gave the row, or that of a row that could not be parsed; else
   * null.
   */
  def sideOutput(row: InternalRow): InternalRow =
    if (side >= 0 && !row.isNullAt(side)) SideOutput.of(row, side)
    else if (raw >= 0 && !row.isNullAt(raw)) sideOutputs.unparsed(row, row.getString(raw))
    else if (isUndecoded(row)) sideOutputs.rejected(row, "bytes that are invalid in the file's encoding")
    else null

  private val texts =
    if (!gate.origin.format.exists(_.replacesUndecoded)) Array.empty[Int]
    else gate.source.indices.filter(i => i != raw && gate.source(i).dataType.isInstanceOf[StringType]).toArray

  private def isUndecoded(row: InternalRow): Boolean = {
    var i = 0
    while (i < texts.length) {
      val at = texts(i)
      if (!row.isNullAt(at) && row.getUTF8String(at).contains(RowGateEvaluator.Replacement)) return true
      i += 1
    }
    false
  }

  /** Whether the row has data and all conditions are true for it. */
  def passes(row: InternalRow): Boolean = {
    if (control >= 0 && !row.isNullAt(control) && row.getBoolean(control)) return gate.keepControl
    var i = 0
    while (i < conditions.length) { if (!conditions(i)(row)) return false; i += 1 }
    true
  }
}

object RowGateEvaluator {
  val Replacement: UTF8String = UTF8String.fromString("\uFFFD")
}
