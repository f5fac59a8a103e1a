package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.execution.keyfold.io.WatchedFileSource
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, ValidEventTime}
import org.apache.spark.sql.keyfold.messages.{AvroMessage, AvroSchema}
import org.apache.spark.sql.keyfold.physical.{PartitionClock, PartitionStepNode, PartitionedWatermark}
import org.apache.spark.sql.keyfold.rows.parsing.CsvHeaderCheck
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder}
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.spark.scan.SparkStreamOffsets
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, DataFrame}

/** Sources of streams, for Python: files, messages of Kafka, which sinks write too, and event times. */
trait SourceApi extends ApiSupport {
  /**
   * A stream of files that are known by their names, below the directory `base`; it and `recursive` may be
   * null.
   */
  def watchFiles(df: DataFrame, stream: String, base: String, recursive: String): DataFrame =
    WatchedFileSource.files(df, stream, Option(base), Option(recursive))

  /** The directory that each stream's file names are relative to, as JSON. */
  def sourceDirectories(df: DataFrame): String =
    json(WatchedFileSource.directories(df).map(p => p.stream -> p.base.toString).toMap.asJava)

  /**
   * For each position in Spark's offset log, the number of its source, which the source's own log is named
   * after. A source that a plan reads twice has two positions.
   */
  def sourceNumbers(df: DataFrame): Array[Int] = {
    val leaves = streams(df)
    leaves.map(leaves.distinct.indexOf(_)).toArray
  }

  /**
   * For each position in Spark's offset log, the stream of topics that it belongs to; null for other sources.
   */
  def topicStreams(df: DataFrame): Array[String] =
    streams(df).map(SparkStreamOffsets.stream(_).orNull).toArray

  /** The files that a stream could read now, as JSON: name, size and modification time. */
  def listFiles(df: DataFrame, stream: String): String = {
    val source = directory(df, stream)
    json(source.list().map { f =>
      Array[Any](source.name(f.getPath), f.getLen, f.getModificationTime)
    }.toArray)
  }

  /** The paths of a stream's files by name, as JSON, each with whether the file exists. */
  def locateFiles(df: DataFrame, stream: String, names: java.util.List[String]): String = {
    val source = directory(df, stream)
    val files = names.asScala.map(name => source.file(name)).toSeq
    val existing = source.existing(files).map(_.getPath).toSet
    json(files.map(f => Array[Any](shown(f), existing(f))).toArray)
  }

  /**
   * The first and the last offsets of each partition that a stream's source could read now, as JSON of the
   * source, and the ids of the topics as JSON; `directory` is one for temporary files.
   */
  def sourceOffsets(df: DataFrame, directory: String): Array[String] = {
    val found = SparkStreamOffsets(plan(df), directory)
    Array(found.first, found.last, json(found.ids.asJava))
  }

  /** Rows of CSV files with headers. A file whose header does not match the schema is rejected as a whole. */
  def checkCsvHeaders(
      df: DataFrame,
      keepRejected: Boolean,
      stream: String,
      options: java.util.Map[String, String]): DataFrame = {
    val columns = plan(df).output
    val visible = columns.map(_.name).filterNot(InternalColumns.hidden)
    val zone = session(df).sessionState.conf.sessionLocalTimeZone
    val base = WatchedFileSource.directories(df).head.base.toString
    val files = origin(stream, "csv", options, files = true)
    val step = CsvHeaderCheck(visible, columns.length, files, keepRejected, zone, base)
    val output = columns.map(a => AttributeReference(a.name, a.dataType)()) :+ SideOutput.attribute()
    frame(df, PartitionStepNode(step, output, plan(df)))
  }

  /** Messages of Spark's Kafka source as rows; `declaration` is JSON, as `MessagesDeclaration` has it. */
  def decodeMessages(df: DataFrame, declaration: String): DataFrame = {
    val zone = session(df).sessionState.conf.sessionLocalTimeZone
    val step = MessagesDeclaration.parse(declaration).step(plan(df).output, zone)
    step.value.format.check(step.value)
    frame(df, PartitionStepNode(step, step.output, plan(df)))
  }

  /** The Avro schema of a struct, which is JSON; the first `keys` columns are never null. */
  def avroSchema(struct: String, name: String, namespace: String, keys: Int): String =
    AvroSchema(StructType.fromString(struct), name, namespace, keys).toString

  /** A struct as a message in Avro, with the id that its schema has in the registry. */
  def avroMessage(struct: Column, schema: String, id: Int): Column =
    SparkDatasets.column(AvroMessage(SparkDatasets.expression(struct), schema, id))

  /**
   * A time if it can be an event time, else null. `aheadMs`: how far it may be ahead of the clock; null for
   * any distance.
   */
  def validEventTime(time: Column, aheadMs: java.lang.Long): Column = {
    val ahead = Option(aheadMs).map(_ * 1000)
    SparkDatasets.column(ValidEventTime(SparkDatasets.expression(time), CurrentTimestamp(), ahead))
  }

  /**
   * The times of a topic's partitions, which are idle after `idleMs` without a row, or never if it is null.
   * `begun`: the newest time of each at the end of the last run, as JSON.
   */
  def partitionClock(idleMs: java.lang.Long, begun: String): PartitionClock = {
    val found = KernelJson.mapper.readTree(begun).properties.asScala.map(e => e.getKey -> e.getValue.asLong)
    new PartitionClock(Option(idleMs).map(_.toLong), found.toMap, () => System.currentTimeMillis)
  }

  /** A stream of messages with the watermark of its slowest partition, less `lateMs`. */
  def partitionedWatermark(df: DataFrame, lateMs: Long, clock: PartitionClock): DataFrame = {
    val marked = df.withWatermark(InternalColumns.Time, s"$lateMs milliseconds")
    frame(df, SparkDatasets.analyzed(marked).transform { case w: EventTimeWatermark
      if !w.isInstanceOf[PartitionedWatermark] && w.output.exists(_.name == InternalColumns.Message) =>
      new PartitionedWatermark(w.nodeId, w.eventTime, w.delay, w.child, clock)
    })
  }

  /** Spark's JSON options for the timestamps in a late row's text, as JSON. */
  def lateRowOptions: String = json(SideOutputBuilder.exactTimes.asJava)

  private def directory(df: DataFrame, stream: String) =
    WatchedFileSource.directories(df).find(_.stream == stream).get

  private def shown(file: Path) = if (file.toUri.getScheme == "file") file.toUri.getPath else file.toString
}
