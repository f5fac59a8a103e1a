package org.apache.spark.sql.keyfold.rows.admission

import java.io.IOException

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, MessageOrigin}
import org.apache.spark.sql.keyfold.rows.parsing.{InputFile, InputLines}
import org.apache.spark.sql.keyfold.rows.side_output.{FileLocation, MessageLocation, RowLocation}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputBuilder
import org.apache.spark.sql.keyfold.spark.scan.SparkInputFiles
import org.apache.spark.unsafe.types.UTF8String

/** The side outputs of a source's rows: also why a text does not parse, and in which file and line it is. */
class SourceSideOutputBuilder(gate: RowGate)
    extends SideOutputBuilder(gate.visible, gate.source, gate.sideOutputs) {
  private lazy val failure = gate.failure
  private var (lines, linesOf) = (null: InputLines, null: UTF8String)
  private var (file, fileOf) = (None: Option[FileLocation], UTF8String.EMPTY_UTF8)
  private val message = gate.index(InternalColumns.Message)

  /** A row of which Spark has parsed no more than its text. */
  def unparsed(row: InternalRow, raw: String): InternalRow = {
    val columns = failure.columns(row, raw)
    val cause = if (columns == null) Option(failure.text(raw)) else None
    val reason = if (columns == null) "does not parse" else s"does not parse: $columns"
    rejected(reason, raw, cause, inFile().map(inLine(_, raw)))
  }

  override protected def location(row: InternalRow): Option[RowLocation] =
    if (message < 0) inFile() else Option(MessageOrigin.of(row, message)).map(MessageLocation(_))

  private def inFile(): Option[FileLocation] = {
    val url = if (gate.origin.files) SparkInputFiles.currentUrl else UTF8String.EMPTY_UTF8
    if (url ne fileOf) {
      fileOf = url
      file = if (url.numBytes == 0) None else Some(FileLocation(InputFile.shown(url.toString)))
    }
    file
  }

  private def inLine(location: FileLocation, raw: String): FileLocation = if (!failure.lined) location else {
    val url = SparkInputFiles.currentUrl
    // The file is read a second time; if that fails the row is rejected without its line.
    try {
      if (url ne linesOf) {
        if (lines != null) lines.close()
        linesOf = url
        lines = null
        lines = new InputLines(url.toString, SparkInputFiles.currentOffset)
      }
      if (lines == null) location else lines.find(location, raw)
    } catch { case _: IOException => lines = null; location }
  }
}
