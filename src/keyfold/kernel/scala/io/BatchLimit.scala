package org.apache.spark.sql.execution.keyfold.io

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.execution.streaming.runtime.FileStreamOptions

/** How many files a batch of a stream reads, so that a first start plans no batch of all there is. */
object BatchLimit {
  /** The user's limit of files or bytes; else that of the session, of both. */
  def of(settings: FileStreamOptions, session: SparkSession): ReadLimit =
    settings.maxFilesPerTrigger.map(ReadLimit.maxFiles)
      .orElse(settings.maxBytesPerTrigger.map(ReadLimit.maxBytes))
      .getOrElse(ReadLimit.compositeLimit((
        setting(session, "batchFiles").map(n => ReadLimit.maxFiles(n.toInt)) ++
        setting(session, "batchBytes").map(ReadLimit.maxBytes)).toArray))

  private def setting(session: SparkSession, name: String): Option[Long] =
    Option(session.conf.get(s"spark.keyfold.$name", null)).map(_.toLong)

  /** How many of the files fit; at least one. */
  def count(files: Seq[FileStatus], limit: ReadLimit): Int = limit match {
    case limit: ReadMaxFiles => limit.maxFiles()
    case limit: ReadMaxBytes =>
      val sizes = files.iterator.scanLeft(0L)(_ + _.getLen).drop(1)
      sizes.takeWhile(_ <= limit.maxBytes()).size.max(1)
    case limit: CompositeReadLimit => limit.getReadLimits.map(count(files, _)).minOption.getOrElse(files.size)
    case _ => files.size
  }
}
