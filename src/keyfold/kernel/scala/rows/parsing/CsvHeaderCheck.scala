package org.apache.spark.sql.keyfold.rows.parsing

import scala.collection.mutable

import com.univocity.parsers.csv.CsvParser
import org.apache.hadoop.fs.Path

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.csv.CSVOptions
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.keyfold.io.SourceDirectory
import org.apache.spark.sql.keyfold.physical.PartitionStep
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder}
import org.apache.spark.sql.keyfold.spark.scan.SparkInputFiles
import org.apache.spark.unsafe.types.UTF8String

/**
 * Rejects CSV files whose header does not match the schema: Spark fills columns by position and would read
 * wrong values, or drop the first line of a file without a header. Rows of other files pass with a null side
 * output; each rejected file becomes one side output. If a file is split, the task with its beginning gives
 * the reason, and the others only count their rows.
 */
case class CsvHeaderCheck(
    columns: Seq[String], width: Int, origin: RowOrigin, keepRejected: Boolean, zone: String, base: String,
    files: Seq[PartitionedFile] = Nil) extends PartitionStep {
  override def reading(here: Seq[PartitionedFile]): PartitionStep = copy(files = here)
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val headers = new CsvHeaders(this)
    val (joined, nothing) = (new JoinedRow, new GenericInternalRow(1))
    rows.filter(_ => headers.fits()).map(joined(_, nothing): InternalRow) ++ headers.rejected
  }
}

/** The headers of a task's files, each looked at once. */
private class CsvHeaders(h: CsvHeaderCheck) {
  private val options = new CSVOptions(h.origin.options, columnPruning = false, h.zone)
  /** By file: null if its header is right. */
  private val seen = mutable.LinkedHashMap.empty[String, Wrong]
  private var (last, wrong) = (null: UTF8String, null: Wrong)

  private class Wrong(val reason: String, val lines: Seq[String]) { var rows = 0L }

  /** Whether the row that is read just now is of a file whose header is right. */
  def fits(): Boolean = {
    val file = SparkInputFiles.currentUrl
    if (file ne last) {
      last = file
      wrong = seen.getOrElseUpdate(file.toString, look(file.toString))
    }
    if (wrong != null) wrong.rows += 1
    wrong == null
  }

  /** Asked for when all rows have been read. A file without any may be one line that is not a header. */
  def rejected: Iterator[InternalRow] = {
    // Fail rather than lose rows, should Spark plan scans in another way.
    if (h.files.isEmpty && seen.valuesIterator.exists(_ != null))
      throw new IllegalStateException("it is not known which files this task reads")
    h.files.iterator.map(_.urlEncodedPath).distinct.flatMap { url =>
      val begins = h.files.exists(f => f.urlEncodedPath == url && f.start == 0)
      val wrong = if (begins) seen.getOrElseUpdate(url, look(url)) else seen.getOrElse(url, null)
      if (wrong == null || (!begins && wrong.rows == 0)) None else Some(row(url, wrong, begins))
    }
  }

  private def row(url: String, wrong: Wrong, whole: Boolean): InternalRow = {
    val raw = wrong.lines.mkString("\n")
    if (!h.keepRejected) throw SideOutputBuilder.badRow(wrong.reason, raw)
    val file = InputFile.shown(url)
    val side = if (whole) SideOutput.rejectedFile(file, h.origin.stream, wrong.rows, wrong.reason, raw)
      else SideOutput.rejectedFile(file, h.origin.stream, wrong.rows)
    val row = new GenericInternalRow(h.width + 1)
    row.update(h.width, side)
    row
  }

  private def look(url: String): Wrong = {
    val lines = first(url)
    lines.headOption.map { line =>
      val parsed = new CsvParser(options.asParserSettings).parseLine(line)
      val found = Option(parsed).getOrElse(Array.empty[String])
      val expected = columns(url)
      val same = found.length == expected.length &&
        found.zip(expected).forall { case (f, e) => f != null && f.trim.equalsIgnoreCase(e) }
      val (name, header) = (new Path(url).getName, CsvHeaders.short(found.mkString(",")))
      if (same) null
      else new Wrong(s"the header of $name is $header, but the schema has ${expected.mkString(",")}: " +
        "the whole file is rejected; if it has no header, set header=False", lines)
    }.orNull
  }

  /** Those of the schema that are in the file itself: what its directories say is not. */
  private def columns(url: String): Seq[String] = {
    val filled = SourceDirectory.partitionColumns(SparkPath.fromUrlString(url).toPath, h.base).map(_._1)
    h.columns.filterNot(column => filled.exists(_.equalsIgnoreCase(column)))
  }

  /** The first lines from the header on, which Spark looks for after empty lines and comments. */
  private def first(url: String): Seq[String] = {
    val in = SparkInputFiles.open(url)
    try {
      val reader = new java.io.BufferedReader(new java.io.InputStreamReader(in, options.charset))
      val all = Iterator.continually(reader.readLine()).takeWhile(_ != null).map(_.stripPrefix("\uFEFF"))
      def isComment(line: String) = options.isCommentSet && line.startsWith(options.comment.toString)
      val from = all.dropWhile(line => line.trim.isEmpty || isComment(line))
      from.take(CsvHeaders.LinesKept).map(CsvHeaders.short).toList
    } finally in.close()
  }
}

private object CsvHeaders {
  /** How many lines of a rejected file are kept. */
  val LinesKept = 5
  def short(line: String): String = if (line.length <= 1000) line else line.take(1000) + "..."
}
