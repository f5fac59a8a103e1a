package org.apache.spark.sql.keyfold.rows

import org.apache.spark.rdd.InputFileBlockHolder
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The rejected rows of a source: also why a text does not parse, and in which file it stands. */
class SourceSideOutput(gate: RowGate) extends SideOutput(gate.visible, gate.source, gate.keep, gate.zone, gate.origin.stream) {
  private lazy val unparsed = new ParseFailure(gate)
  private var (lines, splitOf) = (null: InputLines, null: UTF8String)
  private var (file, fileOf) = (Nil: Seq[(String, Any)], UTF8String.EMPTY_UTF8)

  /** A row of which Spark made no more than its text. */
  def unparsed(row: InternalRow, raw: String): UTF8String = {
    val why = unparsed.columns(row, raw)
    val cause = if (why == null) Option(unparsed.text(raw)).map("cause" -> _) else None
    of(if (why == null) "does not parse" else s"does not parse: $why", raw, cause.toSeq ++ inFile() ++ inLine(raw))
  }

  override protected def inFile(): Seq[(String, Any)] = {
    val url = if (gate.origin.files) InputFileBlockHolder.getInputFilePath else UTF8String.EMPTY_UTF8
    if (url ne fileOf) {
      fileOf = url
      file = if (url.numBytes == 0) Nil else Seq("file" -> InputFile.shown(url.toString))
    }
    file
  }

  private def inLine(raw: String): Seq[(String, Any)] = if (!gate.origin.files || !unparsed.lined) Nil else {
    val url = InputFileBlockHolder.getInputFilePath
    // The file is read a second time; where that fails the row is rejected without its line.
    try {
      if (url ne splitOf) {
        if (lines != null) lines.close()
        splitOf = url
        lines = null
        lines = if (url.numBytes == 0) null else new InputLines(url.toString, InputFileBlockHolder.getStartOffset)
      }
      if (lines == null) Nil else lines.of(raw).toSeq
    } catch { case _: java.io.IOException => lines = null; Nil }
  }
}
