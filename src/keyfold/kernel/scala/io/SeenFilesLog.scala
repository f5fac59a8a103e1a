package org.apache.spark.sql.execution.keyfold.io

import java.io.InputStream

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.CompactibleFileStreamLog
import org.apache.spark.sql.keyfold.expressions.KernelError

/**
 * A file that a source has planned into a batch, by its name in `SourceDirectory`; a line of the log as
 * JSON.
 */
case class SeenFile(path: String, timestamp: Long, size: Long, batchId: Long)

/** The files that a source has planned, batch by batch, in the format of Spark's own file source log. */
class SeenFilesLog(session: SparkSession, path: String)
  extends CompactibleFileStreamLog[SeenFile](1, session, path) {
  private def settings = session.sessionState.conf
  override protected def defaultCompactInterval: Int = settings.fileSourceLogCompactInterval
  override protected def fileCleanupDelayMs: Long = settings.fileSourceLogCleanupDelay
  override protected def isDeletingExpiredLog: Boolean = settings.fileSourceLogDeletion

  /** The files of the batches behind `after`, up to and with `last`. */
  def between(after: Long, last: Long): Seq[SeenFile] = (after + 1 to last).flatMap { batch =>
    filterInBatch(batch)(_.batchId == batch).map(_.toSeq).getOrElse {
      val compacted = allFiles().filter(_.batchId == batch).toSeq
      if (compacted.isEmpty) throw lost(batch) else compacted
    }
  }

  private def lost(batch: Long) = KernelError(KernelError.LostLog,
    "the log of files that were read has lost an entry, " +
    s"${batchIdToPath(batch).toUri.getPath}; restore it from a backup, or reset the table")

  /**
   * The names, without their stream, of files that the user gave up: they stay out even if they come back.
   */
  def skipped: Set[String] = {
    val file = new Path(metadataPath, "skipped.json")
    if (!fileManager.exists(file)) Set.empty
    else Using.resource(fileManager.open(file)) { in =>
      val entries = new ObjectMapper().readTree(in: InputStream).elements().asScala
      entries.map(entry => SourceDirectory.withoutStream(entry.get("name").asText)).toSet
    }
  }
}
