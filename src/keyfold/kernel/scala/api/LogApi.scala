package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.keyfold.log.{LogStream, PublishedBatches}
import org.apache.spark.sql.keyfold.log.LogWriter
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, SparkSession => AnySession}

/**
 * Logs, for Python: batches are written, and changes read as a stream. A log is known by the URI of its
 * directory.
 */
trait LogApi extends ApiSupport {
  /** Writes the batches of one table. */
  def logWriter(): LogWriter = new LogWriter

  /**
   * Runs a batch and writes its rows as parts below a directory; the parts and the counts of rows, as JSON.
   */
  def writeLog(writer: LogWriter, df: DataFrame, directory: String, keepChanges: Boolean): String =
    json(writer.write(df, directory, keepChanges).asJava)

  /**
   * The changes of a table, with their batch and position, as a stream; `schema` is JSON. `LogStream` says
   * what the other arguments are; without a log the stream can be analyzed, but not run.
   */
  def logChanges(
      session: AnySession,
      log: String,
      snapshot: String,
      use: Int,
      schema: String,
      options: java.util.Map[String, String]): DataFrame =
    LogStream.changes(
      session, Option(log), Option(snapshot), use, StructType.fromString(schema), options.asScala.toMap)

  /**
   * For each position in Spark's offset log, the use of a table that it belongs to; null for other sources.
   */
  def logUses(df: DataFrame): Array[Integer] =
    streams(df).map(LogStream.useOf(_).map(Integer.valueOf).orNull).toArray

  /** Tells the tables that read a log of a batch whose manifest is in place. */
  def published(log: String, batch: Long): Unit = PublishedBatches.publish(new Path(log), batch)

  /** Forgets which batches of a log were published, before the queries of an app start. */
  def forgetPublished(log: String): Unit = PublishedBatches.forget(new Path(log))
}
