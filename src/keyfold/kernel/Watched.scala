package org.apache.spark.sql.execution.keyfold

import java.io.IOException
import java.nio.file.{Files, Path}
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS, SECONDS}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.sources.StreamSourceProvider
import org.apache.spark.sql.types.StructType

/**
 * Streams of files that are known by their names below the declared directory, which is listed when it may
 * have changed. Spark's own lists it whenever it looks for new files, which takes it milliseconds, so that an
 * app of several tables spends much of its time on directories in which nothing happens.
 */
object Watched {
  /** The frame with its files read so: those of a stream, or of the home, by their path `within` it. */
  def files(df: DataFrame, stream: String, within: Option[String], recursive: Option[String]): DataFrame = {
    val frame = df.asInstanceOf[Dataset[Row]]
    // Sources of files of Spark's second version can't stream: all of them are relations of this kind.
    val plan = frame.logicalPlan.transform {
      case r: StreamingRelation if ofFiles(r.dataSource) =>
        val watched = new WatchedFiles(r.dataSource, stream, within, recursive)
        // The columns that were declared, in their order: a directory `day=1` adds none.
        val output = if (r.dataSource.userSpecifiedSchema.isEmpty) r.output else toAttributes(watched.columns)
        r.copy(dataSource = watched, output = output)
    }
    if (plan eq frame.logicalPlan) df else Dataset.ofRows(frame.sparkSession, plan)
  }

  /** The streams of files that a plan reads. */
  def places(df: DataFrame): Seq[Place] = df.asInstanceOf[Dataset[Row]].logicalPlan.collect {
    case StreamingRelation(watched: WatchedFiles, _, _, _) if watched.stream.nonEmpty => watched.place
  }

  /** The number of the source behind each offset of a batch: what a plan reads in two places is one source. */
  def numbers(df: DataFrame): Seq[Int] = {
    val read = df.asInstanceOf[Dataset[Row]].logicalPlan.collect {
      case relation @ (_: StreamingRelation | _: StreamingRelationV2) => relation
    }
    read.map(read.distinct.indexOf)
  }

  private def ofFiles(source: DataSource): Boolean = source.providingInstance() match {
    case _: StreamSourceProvider => false
    case format => format.isInstanceOf[FileFormat] && !source.isInstanceOf[WatchedFiles]
  }
}

private class WatchedFiles(
    from: DataSource, val stream: String, within: Option[String], recursive: Option[String])
  extends DataSource(
    from.sparkSession, from.className, from.paths, from.userSpecifiedSchema, from.partitionColumns,
    from.bucketSpec, from.options, from.catalogTable, from.userSpecifiedStreamingSourceName) {
  // Else a plan with it in would be equal to the one without, and Spark keep that.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[WatchedFiles]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  private def session = sparkSession.asInstanceOf[SparkSession]
  private val all = CaseInsensitiveMap(options) ++ recursive.map("recursiveFileLookup" -> _)

  /** What was there when the stream was declared: the plan has the columns of that. */
  def columns: StructType = from.userSpecifiedSchema.getOrElse(from.sourceInfo.schema).asNullable

  def place: Place = new Place(session, all("path"), stream, within, all)

  override def createSource(metadataPath: String): Source =
    new FileSource(session, place, providingInstance().asInstanceOf[FileFormat], columns, metadataPath, all)
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
