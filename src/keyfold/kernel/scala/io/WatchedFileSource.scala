package org.apache.spark.sql.execution.keyfold.io

import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources.{DataSource, FileFormat}
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamingRelation
import org.apache.spark.sql.sources.StreamSourceProvider
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

/**
 * Streams of files that are known by their names below the declared directory, which is listed when it may
 * have changed. Spark's own lists it whenever it looks for new files, which takes it milliseconds, so that an
 * app of several tables spends much of its time on directories in which nothing happens.
 */
object WatchedFileSource {
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
  def places(df: DataFrame): Seq[SourceDirectory] = df.asInstanceOf[Dataset[Row]].logicalPlan.collect {
    case StreamingRelation(watched: WatchedFiles, _, _, _) if watched.stream.nonEmpty => watched.place
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

  def place: SourceDirectory = new SourceDirectory(session, all("path"), stream, within, all)

  override def createSource(metadataPath: String): Source =
    new FileSource(session, place, providingInstance().asInstanceOf[FileFormat], columns, metadataPath, all)
}
