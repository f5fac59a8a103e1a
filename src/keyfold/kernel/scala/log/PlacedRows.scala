package org.apache.spark.sql.keyfold.log

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.keyfold.spark.formats.SparkParquet

/**
 * The changes of one task, or the rows of a stream by their places. A task may read blocks of files in any
 * order: rows of places that follow each other are kept together, others are parts of their own. Changes of
 * a table are all of one place.
 */
class PlacedRows(format: SparkParquet, directory: String, task: String) {
  private val done = ArrayBuffer.empty[TaskRows]
  private var (first, last) = (0, 0)
  private var sentBytes = 0L
  private var current = buffer(s"part-change-$task.parquet")

  def add(row: UnsafeRow, place: Int): Unit = {
    if (place != last) move(place)
    current.add(row)
  }

  private def move(place: Int): Unit = {
    if (place != last + 1 && !current.isEmpty) {
      finish()
      current = buffer(s"part-change-$task-$place.parquet")
    }
    if (current.isEmpty) first = place
    last = place
  }

  private def finish(): Unit = {
    sentBytes += current.sentBytes
    done += current.close().copy(place = first)
  }

  /** What a task sends to the driver is bounded, however many places it has. */
  private def buffer(name: String) = {
    val left = (PlacedRows.MaxSentBytes - sentBytes).max(0L)
    new RowBuffer("change", format, directory, name, left.min(RowBuffer.MaxKeptBytes))
  }

  def close(): Seq[TaskRows] = {
    finish()
    done.toSeq
  }

  /** Lets go of an unfinished file, which no manifest will list. */
  def discard(): Unit = current.discard()
}

private object PlacedRows {
  val MaxSentBytes: Long = 1 << 20
}
