package org.apache.spark.sql.execution.keyfold.io

import java.io.InputStream

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.streaming.runtime._

/** A file that was taken into the `batchId`-th step of a source. */
case class SeenFile(path: String, timestamp: Long, size: Long, batchId: Long)

/** What a source has taken, in files like those of Spark's own. */
class SeenFilesLog(session: SparkSession, path: String)
  extends CompactibleFileStreamLog[SeenFile](1, session, path) {
  private def settings = session.sessionState.conf
  override protected def defaultCompactInterval: Int = settings.fileSourceLogCompactInterval
  override protected def fileCleanupDelayMs: Long = settings.fileSourceLogCleanupDelay
  override protected def isDeletingExpiredLog: Boolean = settings.fileSourceLogDeletion

  def between(after: Long, upto: Long): Seq[SeenFile] = (after + 1 to upto).flatMap { step =>
    filterInBatch(step)(_.batchId == step).map(_.toSeq).getOrElse {
      val old = allFiles().filter(_.batchId == step).toSeq
      if (old.isEmpty) throw lost(step) else old
    }
  }

  private def lost(step: Long) = new IllegalStateException("[KEYFOLD_LOST_LOG] the log of the files that were " +
    s"read has lost an entry, ${batchIdToPath(step).toUri.getPath}; bring it back from a backup, or reset the table")

  /** Files that the user has let go, which stay out should they come back. */
  def skipped: Set[String] = {
    val file = new Path(metadataPath, "skipped.json")
    if (!fileManager.exists(file)) Set.empty
    else Using.resource(fileManager.open(file)) { in =>
      val rows = new ObjectMapper().readTree(in: InputStream).elements().asScala
      rows.map(row => SourceDirectory.below(row.get("name").asText)).toSet
    }
  }
}
