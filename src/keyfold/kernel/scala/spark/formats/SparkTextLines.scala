package org.apache.spark.sql.execution.keyfold.spark.formats

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.io.Text

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.csv.CSVFileFormat
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFileLinesReader, PartitionedFile}
import org.apache.spark.util.Utils

/** The lines of a block of a file, as Spark reads them. */
class SparkTextLines(lines: Iterator[Text]) extends Iterator[Text] {
  override def hasNext: Boolean = lines.hasNext
  override def next(): Text = lines.next()

  /** The rows of all lines: `quick` gives that of a line, or null if the line is one of the `others`. */
  def rows(quick: Text => InternalRow, others: Text => Iterator[InternalRow]): Iterator[InternalRow] =
    new Iterator[InternalRow] {
      private var ready: InternalRow = _
      private var more: Iterator[InternalRow] = Iterator.empty

      override def hasNext: Boolean = {
        while (ready == null) {
          if (more.hasNext) ready = more.next()
          else {
            if (!lines.hasNext) return false
            val line = lines.next()
            ready = quick(line)
            if (ready == null) more = others(line)
          }
        }
        true
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException
        val row = ready
        ready = null
        row
      }
    }
}

object SparkTextLines {
  def of(file: PartitionedFile, conf: Configuration): SparkTextLines = {
    val lines = Utils.createResourceUninterruptiblyIfInTaskThread(
      new HadoopFileLinesReader(file, None, conf))
    Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => lines.close()))
    new SparkTextLines(lines)
  }

  /** The format, or the kernel's in place of Spark's for CSV and JSON. */
  def format(sparks: FileFormat): FileFormat = sparks match {
    case _: CSVFileFormat => new SparkCsvFormat
    case _: JsonFileFormat => new SparkJsonFormat
    case other => other
  }
}
