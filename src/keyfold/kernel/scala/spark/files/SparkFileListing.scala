package org.apache.spark.sql.execution.keyfold.spark.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex
import org.apache.spark.sql.execution.streaming.runtime.FileStreamSource.FileStreamSourceCleaner
import org.apache.spark.sql.execution.streaming.runtime.{FileStreamOptions, MetadataLogFileIndex}
import org.apache.spark.sql.execution.streaming.sinks.FileStreamSink
import org.apache.spark.sql.types.StructType

/** Files as Spark's readers find them: by path or glob pattern, without hidden ones. */
class SparkFileListing(session: SparkSession, options: CaseInsensitiveMap[String]) {
  val conf: Configuration = session.sessionState.newHadoopConfWithOptions(options)

  /** The paths that a glob pattern stands for; any other path as it is. */
  def roots(system: FileSystem, path: Path): Seq[Path] = SparkHadoopUtil.get.globPathIfNecessary(system, path)

  /** All files below the roots, at any depth. */
  def below(roots: Seq[Path]): Seq[FileStatus] = {
    val recursive = options + ("recursiveFileLookup" -> "true")
    new InMemoryFileIndex(session, roots, recursive, Some(new StructType)).allFiles()
  }

  /** Those of the files that exist. */
  def existing(files: Seq[Path]): Seq[FileStatus] =
    new InMemoryFileIndex(session, Nil, options, Some(new StructType)).listLeafFiles(files).toSeq

  /** Whether a streaming query of Spark's wrote the directory: its log then lists the files that count. */
  def hasSinkLog(path: String): Boolean =
    FileStreamSink.hasMetadata(Seq(path), conf, session.sessionState.conf)

  /** The files in the log of the streaming query that wrote the directory. */
  def inSinkLog(directory: Path): Seq[FileStatus] =
    new MetadataLogFileIndex(session, directory, options, None).allFiles()

  /** Archives or deletes files once they are read, if the options ask for it. */
  def cleaner(
      system: FileSystem, directory: Path, options: FileStreamOptions): Option[FileStreamSourceCleaner] =
    FileStreamSourceCleaner(system, directory, options, conf)
}

object SparkFileListing {
  def isGlob(path: Path): Boolean = SparkHadoopUtil.get.isGlobPath(path)
}
