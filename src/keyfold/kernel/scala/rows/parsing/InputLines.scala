package org.apache.spark.sql.keyfold.rows.parsing

import org.apache.hadoop.io.Text
import org.apache.hadoop.util.LineReader

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.keyfold.rows.side_output.FileLocation
import org.apache.spark.sql.keyfold.spark.scan.SparkInputFiles

/**
 * Finds lines in a file, or in a part of one that starts at the byte `from`, asked for in the file's order:
 * by number or, in a part other than the first, by first byte. The file is read a second time, up to the
 * last line asked for.
 */
class InputLines(url: String, from: Long) {
  private val in = if (from == 0) SparkInputFiles.open(url) else SparkInputFiles.openAt(url, from)
  private val (reader, line) = (new LineReader(in), new Text)
  // The line that a part begins in, or with, belongs to the part before.
  private var (at, number, lost) = (if (from == 0) 0L else from + reader.readLine(line), 0L, false)
  org.apache.spark.TaskContext.get().addTaskCompletionListener[Unit](_ => close())

  /** The location with the line of a text, or its first byte. */
  def find(location: FileLocation, text: String): FileLocation = {
    val wanted = new Text(text)
    while (!lost) {
      val (begins, read) = (at, reader.readLine(line))
      at += read
      number += 1
      if (read == 0) { lost = true; close() }
      else if (line == wanted) return found(location, begins)
    }
    location
  }

  private def found(location: FileLocation, begins: Long): FileLocation =
    if (from == 0) location.copy(line = Some(number)) else location.copy(byte = Some(begins))

  def close(): Unit = reader.close()
}

object InputFile {
  /** A file as its user knows it. */
  def shown(url: String): String = {
    val uri = SparkPath.fromUrlString(url).toPath.toUri
    if (uri.getScheme == null || uri.getScheme == "file") uri.getPath else uri.toString
  }
}
