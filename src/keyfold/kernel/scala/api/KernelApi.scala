package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LeafNode, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.keyfold.io.{HomeProbe, RemoteFiles, WatchedFileSource}
import org.apache.spark.sql.execution.keyfold.log.{LogStream, PublishedBatches}
import org.apache.spark.sql.execution.keyfold.lookup.LookupTable
import org.apache.spark.sql.keyfold.expressions.{BytesOfRow, ColumnScope, InternalColumns, RowFromBytes}
import org.apache.spark.sql.keyfold.expressions.{RowId, ValidEventTime}
import org.apache.spark.sql.keyfold.join.StreamJoin
import org.apache.spark.sql.keyfold.log.LogWriter
import org.apache.spark.sql.keyfold.messages.{DecodeMessages, MessageFormat}
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionClock, PartitionStepNode}
import org.apache.spark.sql.keyfold.physical.{PartitionedWatermark, PlanCheck, SortByKeyAndTime}
import org.apache.spark.sql.keyfold.physical.WatermarkPropagation
import org.apache.spark.sql.keyfold.realtime.{DetachedOffset, MessageTopic, PythonBatchEvents, RealTimeSink}
import org.apache.spark.sql.keyfold.rows.{CsvHeaderCheck, RejectionLimit, RowOrigin}
import org.apache.spark.sql.keyfold.rows.{SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.keyfold.spark.{SparkDatasets, SparkRealTimeQuery, SparkStateRewriter}
import org.apache.spark.sql.keyfold.spark.SparkStreamOffsets
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, SparkSession => AnySession}

/**
 * The kernel's entry point for Python. Several values are returned as an array or as JSON: Python learns
 * where a list or a map ends from an exception, and PySpark takes 50 ms to find out which.
 */
object KernelApi {
  /** How this Spark differs from what the kernel relies on, in words for the user; empty if it does not. */
  def selfCheck(session: AnySession): String = PlanCheck.problem(session).getOrElse("")

  /** Small files below a directory of any file system, for keyfold's own storage. */
  def files(session: AnySession, root: String): RemoteFiles =
    new RemoteFiles(session.asInstanceOf[SparkSession], root)

  // Tables, and steps of streams

  /**
   * Begins a declaration. `keepRejected`: rejected rows are side outputs, else they stop the query. `stream`
   * is the name of the stream, or null. `format` is null where rows are not parsed from text; `options` are
   * Spark's for it. `files`: whether the rows are read from the user's files.
   */
  def declare(
      df: DataFrame,
      keepRejected: Boolean,
      stream: String,
      format: String,
      options: java.util.Map[String, String],
      files: Boolean): TableDeclaration = {
    val conf = session(df).sessionState.conf
    val most = conf.getConfString("spark.keyfold.rejectedRows", RejectionLimit.Default.toString).toInt
    val from = origin(stream, format, options, files)
    new TableDeclaration(df, InputSettings(keepRejected, conf.sessionLocalTimeZone, from, most))
  }

  /** A join of two streams, known by these names in its condition; `left` and `right` have their columns. */
  def join(left: DataFrame, right: DataFrame, leftName: String, rightName: String): StreamJoin =
    new StreamJoin(left, right, leftName, rightName)

  /**
   * A stream with a table's newest row for its key; `EnrichPlanner` and `EnrichOptions` say what the
   * arguments are.
   */
  def enrich(
      both: DataFrame,
      keys: Int,
      keepRows: Boolean,
      keepValues: Boolean,
      waitMs: Long,
      follow: Boolean,
      keepMs: Long,
      timed: Boolean,
      names: java.util.List[String],
      on: java.util.List[Integer]): DataFrame = {
    val options = EnrichOptions(keepRows, keepValues, waitMs, follow, keepMs)
    new EnrichPlanner(session(both)).byArrival(
      both, keys, options, timed, names.asScala.toSeq, on.asScala.map(_.intValue).toSeq)
  }

  /** A lookup, which has no rows until it is loaded. */
  def lookup(): LookupTable = new LookupTable

  /** The columns of a schema, as JSON, that state can't keep. */
  def unstorableColumns(schema: String): Array[String] =
    StructType.fromString(schema).filterNot(f => ColumnScope.storable(f.dataType)).map(_.name).toArray

  /** A stream's rows by key, event time and arrival, for a stateful operator that is not the kernel's. */
  def sortByKeyAndTime(df: DataFrame, keys: java.util.List[String]): DataFrame =
    SortByKeyAndTime.rows(df, keys)

  /**
   * The plan of a table whose stateful operator is not the kernel's, with the watermark passed to its steps.
   */
  def propagateWatermark(df: DataFrame): DataFrame = frame(df, WatermarkPropagation(plan(df)))

  /** The id of a table's row with these key columns, where a table reads its changelog. */
  def rowId(keys: java.util.List[Column], reading: Int): Column =
    SparkDatasets.column(RowId(reading, keys.asScala.map(SparkDatasets.expression).toSeq))

  // The log

  /**
   * Runs a batch and writes its rows as parts below a directory; the parts and the counts of rows, as JSON.
   */
  def writeLog(writer: LogWriter, df: DataFrame, directory: String, keepChanges: Boolean): String =
    json(writer.write(df, directory, keepChanges).asJava)

  /** Writes the batches of one table. */
  def logWriter(): LogWriter = new LogWriter

  // Real-time mode

  /**
   * Starts a query in real-time mode, which calls `handler` around each batch (`PythonBatchEvents`) and sends
   * each change to these topics.
   */
  def realTimeQuery(
      df: DataFrame,
      name: String,
      checkpoint: String,
      batchMs: Long,
      handler: java.util.function.Function[String, String],
      topics: java.util.List[java.util.Map[String, String]]): AnyRef = {
    val kafka = SparkRealTimeQuery.provider(session(df), "kafka")
    val sink = new RealTimeSink(
      df, new PythonBatchEvents(handler), topics.asScala.map(new MessageTopic(kafka, _)).toSeq)
    SparkRealTimeQuery.start(df, name, checkpoint, sink, batchMs)
  }

  /** A stream of messages that can be read in real-time mode, whichever session its connector is in. */
  def realTimeMessages(df: DataFrame): DataFrame = frame(df, DetachedOffset.in(plan(df)))

  /** How many tasks of this session can run at the same time. */
  def taskSlots(session: AnySession): Int = SparkRealTimeQuery.slots(SparkDatasets.session(session))

  /** What keeps executors from using a home, by host, as JSON; `tasks`: how many try. */
  def probeHome(session: AnySession, home: String, tasks: Int): String =
    json(HomeProbe.failures(SparkDatasets.session(session), home, tasks).asJava)

  // Sources

  /**
   * A time if it can be an event time, else null. `aheadMs`: how far it may be ahead of the clock, or below
   * zero.
   */
  def validEventTime(time: Column, aheadMs: Long): Column = {
    val ahead = Some(aheadMs * 1000).filter(_ >= 0)
    SparkDatasets.column(ValidEventTime(SparkDatasets.expression(time), CurrentTimestamp(), ahead))
  }

  /** Spark's JSON options for the timestamps in a late row's text, as JSON. */
  def lateRowOptions: String = json(SideOutputBuilder.exactTimes.asJava)

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

  // Logs, which are known by the URIs of their directories

  /**
   * The changes of a table, with their batch and position, as a stream; `schema` is JSON. `LogStream` says
   * what the other arguments are.
   */
  def logChanges(
      session: AnySession,
      log: String,
      snapshot: String,
      use: Int,
      schema: String,
      options: java.util.Map[String, String]): DataFrame =
    LogStream.changes(session, log, snapshot, use, StructType.fromString(schema), options.asScala.toMap)

  /** For each position in Spark's offset log, the use of a table that it belongs to; -1 for other sources. */
  def logUses(df: DataFrame): Array[Int] =
    streams(df).map(LogStream.useOf(_).getOrElse(-1)).toArray

  /** Tells the tables that read a log of a batch whose manifest is in place. */
  def published(log: String, batch: Long): Unit = PublishedBatches.publish(new Path(log), batch)

  /** Forgets which batches of a log were published, before the queries of an app start. */
  def forgetPublished(log: String): Unit = PublishedBatches.forget(new Path(log))

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

  /**
   * Messages of Spark's Kafka source as rows. `schema` is that of the values, as JSON; `registry` may be
   * null; `MessageFormat` and `DecodeMessages` say what the other arguments are.
   */
  def decodeMessages(
      df: DataFrame,
      keepRejected: Boolean,
      stream: String,
      format: String,
      schema: String,
      options: java.util.Map[String, String],
      registry: String,
      metadata: java.util.List[String],
      textKey: Boolean): DataFrame = {
    val zone = session(df).sessionState.conf.sessionLocalTimeZone
    val values = MessageFormat(
      format, StructType.fromString(schema), options.asScala.toMap, zone, Option(registry))
    val step = DecodeMessages(values, metadata.asScala.toSeq, textKey, plan(df).output,
      SideOutputSettings(keepRejected, zone, Option(stream)))
    frame(df, PartitionStepNode(step, step.output, plan(df)))
  }

  /**
   * The times of a topic's partitions; `idleMs` below zero is never. `begun`: the newest time of each at the
   * end of the last run, as JSON.
   */
  def partitionClock(idleMs: Long, begun: String): PartitionClock = {
    val found = KernelJson.mapper.readTree(begun).properties.asScala.map(e => e.getKey -> e.getValue.asLong)
    new PartitionClock(Some(idleMs).filter(_ >= 0), found.toMap, () => System.currentTimeMillis)
  }

  /** A stream of messages with the watermark of its slowest partition, less `lateMs`. */
  def partitionedWatermark(df: DataFrame, lateMs: Long, clock: PartitionClock): DataFrame = {
    val marked = df.withWatermark(InternalColumns.Time, s"$lateMs milliseconds")
    frame(df, SparkDatasets.analyzed(marked).transform { case w: EventTimeWatermark
      if !w.isInstanceOf[PartitionedWatermark] && w.output.exists(_.name == InternalColumns.Message) =>
      new PartitionedWatermark(w.nodeId, w.eventTime, w.delay, w.child, clock)
    })
  }

  /**
   * The first and the last offsets of each partition that a stream's source could read now, as JSON of the
   * source; `directory` is one for temporary files.
   */
  def sourceOffsets(df: DataFrame, directory: String): Array[String] =
    SparkStreamOffsets(plan(df), directory)

  /** The state stores of a checkpoint as JSON: pairs of an operator's number and a store's name. */
  def stateStores(session: AnySession, checkpoint: String, batch: Long): String =
    json(SparkStateRewriter.stores(session, checkpoint, batch)
      .map(s => Array[Any](s.operator, s.store)).toArray)

  /** Gives a checkpoint a batch with another state; returns its number. */
  def rewriteState(
      session: AnySession, checkpoint: String, rows: java.util.List[DataFrame], partitions: Int): Long =
    SparkStateRewriter.rewrite(session, checkpoint, rows.asScala.toSeq, partitions)

  /** A key or a value of a state store, in bytes, as a struct of a schema, which is JSON. */
  def rowFromBytes(bytes: Column, schema: String): Column =
    SparkDatasets.column(RowFromBytes(SparkDatasets.expression(bytes), StructType.fromString(schema)))

  /** A struct as a key or a value of a state store. */
  def bytesOfRow(row: Column): Column = SparkDatasets.column(BytesOfRow(SparkDatasets.expression(row)))

  private def origin(stream: String, format: String, options: java.util.Map[String, String], files: Boolean) =
    RowOrigin(Option(stream), format, options.asScala.toMap, files)

  private def directory(df: DataFrame, stream: String) =
    WatchedFileSource.directories(df).find(_.stream == stream).get

  /** The leaves of a plan that are streams, in the order of Spark's offset log. */
  private def streams(df: DataFrame): Seq[LogicalPlan] =
    plan(df).collect { case leaf: LeafNode if leaf.isStreaming => leaf }

  private def shown(file: Path) = if (file.toUri.getScheme == "file") file.toUri.getPath else file.toString

  private def json(value: AnyRef): String = KernelJson.mapper.writeValueAsString(value)

  private def session(df: DataFrame): SparkSession = SparkDatasets.session(df)

  private def plan(df: DataFrame): LogicalPlan = SparkDatasets.plan(df)

  private def frame(df: DataFrame, plan: LogicalPlan): DataFrame = {
    KernelStrategy.install(session(df))
    SparkDatasets.frame(session(df), plan)
  }
}
