package org.apache.spark.sql.execution.keyfold

import java.io.IOException
import java.nio.file.{Files, Path, Paths}
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS, SECONDS}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.connector.read.streaming.{Offset, ReadLimit}
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.execution.streaming.runtime.{FileStreamSource, FileStreamSourceOffset, StreamingRelation}
import org.apache.spark.sql.sources.StreamSourceProvider

/**
 * Streams of files whose directory is listed when it may have changed. Spark's own lists it whenever it looks for new files, which takes it milliseconds, so
 * that an app of several tables spends much of its time on directories in which nothing happens.
 */
object Watched {
  def files(df: DataFrame): DataFrame = {
    val frame = df.asInstanceOf[Dataset[Row]]
    // Sources of files of Spark's second version can't stream: all of them are relations of this kind.
    val plan = frame.logicalPlan.transform { case r: StreamingRelation if ofFiles(r.dataSource) => r.copy(dataSource = new WatchedFiles(r.dataSource)) }
    if (plan eq frame.logicalPlan) df else Dataset.ofRows(frame.sparkSession, plan)
  }

  private def ofFiles(source: DataSource): Boolean = source.providingInstance() match {
    case _: StreamSourceProvider => false
    case format => format.isInstanceOf[FileFormat] && !source.isInstanceOf[WatchedFiles]
  }
}

private class WatchedFiles(from: DataSource) extends DataSource(from.sparkSession, from.className, from.paths, from.userSpecifiedSchema, from.partitionColumns,
    from.bucketSpec, from.options, from.catalogTable, from.userSpecifiedStreamingSourceName) {
  // Else a plan with it in would be equal to the one without, and Spark keep that.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[WatchedFiles]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  private def session = sparkSession.asInstanceOf[SparkSession]

  override def createSource(metadataPath: String): Source = {
    val all = CaseInsensitiveMap(options)
    all.get("path").flatMap(path => directory(new HadoopPath(path)).map(path -> _)).fold(from.createSource(metadataPath)) { case (path, directory) =>
      // What was there when the stream was declared: the plan has the columns of that.
      new FileStreamSource(session, path, className, from.sourceInfo.schema, from.sourceInfo.partitionColumns, metadataPath, all) {
        override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
          val (look, before) = (directory.look(), currentLogOffset)
          if (look.exists(directory.isStill)) { if (before < 0) null else FileStreamSourceOffset(before) }
          else {
            val found = super.latestOffset(start, limit)
            if (currentLogOffset == before) look.foreach(directory.nothingNew) else directory.moved()
            found
          }
        }
      }
    }
  }

  /** What is no single directory of this machine is listed each time. */
  private def directory(path: HadoopPath): Option[Directory] = {
    val system = path.getFileSystem(session.sessionState.newHadoopConf())
    val local = system.makeQualified(path).toUri
    if (local.getScheme == "file" && !SparkHadoopUtil.get.isGlobPath(path)) Some(new Directory(Paths.get(local.getPath))) else None
  }
}

/** A directory at one time: which it is, and when something in it last came or went. */
private case class Look(file: AnyRef, changed: FileTime)(val at: Long)

/** Whether files can have come to a directory since it was listed. */
private class Directory(path: Path) {
  private var still: Option[(Look, Long)] = None

  def look(): Option[Look] =
    try {
      val found = Files.readAttributes(path, classOf[BasicFileAttributes])
      if (found.isDirectory) Some(Look(found.fileKey, found.lastModifiedTime)(System.currentTimeMillis())) else None
    } catch { case _: IOException => None }

  def isStill(now: Look): Boolean = still.exists { case (was, listed) => was == now && System.nanoTime() - listed < Directory.Trusted }

  def moved(): Unit = still = None

  /** It was looked at, then listed, and there was nothing new. */
  def nothingNew(look: Look): Unit = {
    // What comes to a directory below it changes that one's time only.
    def flat = Using(Files.newDirectoryStream(path))(_.iterator().asScala.forall(!Files.isDirectory(_))).getOrElse(false)
    still = if (look.at - look.changed.toMillis > Directory.tick(look.changed) && flat) Some((look, System.nanoTime())) else None
  }
}

private object Directory {
  /** A directory is listed after this time whatever it looks like: mounts may keep its time in a cache or not at all, and copies with their times set it back. */
  val Trusted: Long = SECONDS.toNanos(5)

  /** Milliseconds in which two changes may have one time: Linux stamps them by a clock that moves every few, some file systems keep seconds, or two. */
  def tick(changed: FileTime): Long = if (changed.to(NANOSECONDS) % MILLISECONDS.toNanos(1) != 0) 100 else 3000
}
