package org.apache.spark.sql.keyfold.rows.side_output

import scala.collection.mutable.LinkedHashMap

import org.apache.spark.sql.catalyst.InternalRow

/**
 * Files that are rejected as a whole. The tasks that read parts of a file know nothing of each other: each
 * has a side output with the rows of its part, and one of them also has the reason and the first lines.
 */
object RejectedFiles {
  private case class Found(rows: Long, reason: String, raw: String)

  /** Parts of rejected files, from any number of tasks, as one side output per file. */
  def merged(parts: Iterator[InternalRow]): Seq[InternalRow] = {
    val files = LinkedHashMap.empty[(Option[String], String), Found]
    parts.foreach { part =>
      val file = (SideOutput.stream(part), SideOutput.file(part))
      val before = files.getOrElse(file, Found(0L, null, null))
      val rows = before.rows + SideOutput.count(part)
      files(file) =
        if (SideOutput.hasReason(part)) Found(rows, SideOutput.reason(part), SideOutput.raw(part))
        else before.copy(rows = rows)
    }
    files.map { case ((stream, file), found) =>
      SideOutput.rejectedFile(file, stream, found.rows, found.reason, found.raw)
    }.toSeq
  }
}
