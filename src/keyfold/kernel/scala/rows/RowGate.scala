package org.apache.spark.sql.keyfold.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, UserPredicate}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Where rows come from: the stream, if it is one alone, how its texts become rows (null where it has none), and whether it is of files. */
case class RowOrigin(stream: Option[String], format: String, options: Map[String, String], files: Boolean)

/** What every row meets first: is it a row at all, and does it pass the conditions, in the order they were declared. */
case class RowGate(source: Seq[Attribute], conditions: Seq[Expression], keep: Boolean, zone: String, origin: RowOrigin) {
  def sideOutputs: SideOutputSettings = SideOutputSettings(keep, zone, origin.stream)
  def visible: Seq[Attribute] = source.filterNot(a => InternalColumns.hidden(a.name))
  def index(name: String): Int = source.indexWhere(_.name == name)
}

class RowGateEvaluator(gate: RowGate, partition: Int) {
  val rejects = new SourceSideOutputBuilder(gate)
  private val tests = gate.conditions.map(new UserPredicate(_, gate.source, partition)).toArray
  private val (side, raw, control) = (gate.index(InternalColumns.SideOutput), gate.index(InternalColumns.Raw), gate.index(InternalColumns.Control))
  private val weight = gate.index(InternalColumns.Weight)
  /** Whether a row is taken back: one that can't be used was refused when it came, and is not refused again. */
  def takenBack(row: InternalRow): Boolean = weight >= 0 && row.getInt(weight) < 0

  /** Why the row was set aside before it came here, or null. */
  def sideOutput(row: InternalRow): InternalRow =
    if (side >= 0 && !row.isNullAt(side)) SideOutput.of(row, side)
    else if (raw >= 0 && !row.isNullAt(raw)) rejects.unparsed(row, row.getString(raw))
    else if (undecoded(row)) rejects.rejected(row, "bytes that are no text in the file's encoding")
    else null

  // Spark puts U+FFFD in place of what it can't decode in a CSV file, and different texts become one.
  private val texts = if (gate.origin.format != "csv") Array.empty[Int] else gate.source.indices.filter(i => i != raw && gate.source(i).dataType.isInstanceOf[StringType]).toArray
  private def undecoded(row: InternalRow): Boolean = texts.exists(i => !row.isNullAt(i) && row.getUTF8String(i).contains(RowGateEvaluator.Replacement))

  def passes(row: InternalRow): Boolean = {
    if (control >= 0 && !row.isNullAt(control) && row.getBoolean(control)) return false
    var i = 0
    while (i < tests.length) { if (!tests(i)(row)) return false; i += 1 }
    true
  }
}

object RowGateEvaluator {
  val Replacement: UTF8String = UTF8String.fromString("\uFFFD")
}
