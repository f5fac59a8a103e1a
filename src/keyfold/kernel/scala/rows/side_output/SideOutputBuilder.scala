package org.apache.spark.sql.keyfold.rows.side_output

import org.apache.spark.SparkException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{KernelError, RowError}
import org.apache.spark.sql.keyfold.physical.EventTime

/**
 * What is done with rows that can't be used: kept or fatal, in which zone their times are written, and of
 * which stream they are.
 */
case class SideOutputSettings(keepRejected: Boolean, zone: String, stream: Option[String])

/**
 * Builds the side outputs of rows with the columns `input`; `row` is the part of them that is kept as JSON.
 */
class SideOutputBuilder(row: Expression, input: Seq[Attribute], settings: SideOutputSettings) {
  import settings._
  def this(columns: Seq[Attribute], input: Seq[Attribute], settings: SideOutputSettings) =
    this(SideOutputBuilder.struct(columns), input, settings)

  private def toJson(zone: String, options: (String, String)*) = UnsafeProjection.create(
    Seq(StructsToJson(Map("ignoreNullFields" -> "false") ++ options, row, Some(zone)).replacement), input)
  private lazy val readable = toJson(zone)
  // A late row may be replayed and must then be the same; Spark's default format ends at milliseconds.
  private lazy val exact = toJson("UTC", SideOutputBuilder.exactTimes.toSeq: _*)

  /** The row as JSON. */
  def json(row: InternalRow): String = readable(row).getString(0)

  def rejected(row: InternalRow, error: RowError): InternalRow = rejected(row, RowError.reason(error))
  def rejected(row: InternalRow, reason: String): InternalRow =
    rejected(reason, json(row), None, location(row))
  def rejected(reason: String, raw: String): InternalRow = rejected(reason, raw, None, None)

  /** Where the row, which is the current one, was read, if that is known here. */
  protected def location(row: InternalRow): Option[RowLocation] = None

  def rejected(
      reason: String, raw: String, cause: Option[String], location: Option[RowLocation]): InternalRow = {
    if (!keepRejected) {
      val details = cause ++ location.toSeq.flatMap(_.words)
      val full = if (details.isEmpty) reason else s"$reason (${details.mkString(", ")})"
      throw SideOutputBuilder.badRow(full, raw)
    }
    SideOutput.rejected(reason, raw, stream, cause, location)
  }

  /** A row that arrived after `missed` of its windows had closed, the newest of them at `lastEnd`. */
  def late(
      row: InternalRow, time: Long, watermark: Long, missed: Long, windows: Seq[(Long, Long)],
      lastEnd: Long): InternalRow = {
    val closed = if (missed == 1) "its window is" else s"$missed of its windows are"
    lazy val now = s"the watermark is ${EventTime.text(watermark)}"
    val reason =
      if (watermark == EventTime.NoWatermark) "older than the rows that its key still has in state"
      else if (missed == 0) s"behind the watermark of a step before the table, $now"
      else s"$closed closed since ${EventTime.text(lastEnd)}, $now"
    SideOutput.late(reason, exact(row).getString(0), stream, time, watermark, missed, windows, lastEnd)
  }

  def replayed(row: InternalRow, time: Long, watermark: Long): InternalRow =
    SideOutput.replayed(exact(row).getString(0), stream, time, watermark)
}

object SideOutputBuilder {
  /** How the times of a late row are written, and read when it is replayed. */
  val exactTimes: Map[String, String] = Map(
    "timestampFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat" -> "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")

  def struct(columns: Seq[Attribute]): Expression =
    CreateNamedStruct(columns.flatMap(c => Seq(Literal(c.name), c)))

  def badRow(reason: String, raw: String): SparkException =
    KernelError(KernelError.RejectedRow, s"$reason; row: $raw", Map("reason" -> reason, "row" -> raw))
}
