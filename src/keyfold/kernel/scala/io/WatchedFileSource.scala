package org.apache.spark.sql.execution.keyfold.io

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.DataSource
import org.apache.spark.sql.execution.keyfold.spark.formats.SparkTextLines
import org.apache.spark.sql.execution.keyfold.spark.scan.SparkFileSource
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets

/**
 * Streams of files that are known by their names below the declared directory, which is listed only when it
 * may have changed. Spark's own source lists it in every trigger, which takes milliseconds: an app of
 * several tables would spend much of its time on directories in which nothing happens.
 */
object WatchedFileSource {
  /**
   * The DataFrame with its file sources replaced. `within`: for files of the home, the directory of their
   * names.
   */
  def files(df: DataFrame, stream: String, within: Option[String], recursive: Option[String]): DataFrame = {
    val plan = SparkDatasets.plan(df)
    val replaced = SparkFileSource.replace(plan)(new WatchedFiles(_, stream, within, recursive))
    if (replaced eq plan) df else SparkDatasets.frame(df.sparkSession, replaced)
  }

  /** The directories of the user's streams that a DataFrame reads. */
  def directories(df: DataFrame): Seq[SourceDirectory] = SparkFileSource.in(SparkDatasets.plan(df)).collect {
    case watched: WatchedFiles if watched.stream.nonEmpty => watched.directory
  }
}

private class WatchedFiles(
    declared: DataSource,
    val stream: String,
    within: Option[String],
    recursive: Option[String]) extends SparkFileSource(declared) {
  private val allOptions = CaseInsensitiveMap(options) ++ recursive.map("recursiveFileLookup" -> _)

  def directory: SourceDirectory =
    new SourceDirectory(session, allOptions("path"), stream, within, allOptions)

  override def createSource(logPath: String): Source =
    new FileSource(session, directory, SparkTextLines.format(format), columns, logPath, allOptions)
}
