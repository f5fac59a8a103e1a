package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.keyfold.io.{HomeProbe, RemoteFiles}
import org.apache.spark.sql.execution.keyfold.lookup.LookupTable
import org.apache.spark.sql.keyfold.expressions.{BytesOfRow, ColumnScope, RowFromBytes, RowId}
import org.apache.spark.sql.keyfold.join.StreamJoin
import org.apache.spark.sql.keyfold.physical.{PlanCheck, SortByKeyAndTime, WatermarkPropagation}
import org.apache.spark.sql.keyfold.realtime.{DetachedOffset, MessageTopic, PythonBatchEvents, RealTimeSink}
import org.apache.spark.sql.keyfold.rows.side_output.RejectionLimit
import org.apache.spark.sql.keyfold.spark.files.SparkHadoopSettings
import org.apache.spark.sql.keyfold.spark.plans.{SparkDatasets, SparkRealTimeQuery}
import org.apache.spark.sql.keyfold.spark.state_store.SparkStateRewriter
import org.apache.spark.sql.keyfold.state.StateDigest
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, SparkSession => AnySession}

/**
 * The kernel's entry point for Python. Several values are returned as an array or as JSON: Python learns
 * where a list or a map ends from an exception, and PySpark takes 50 ms to find out which. Sources and logs
 * have files of their own.
 */
object KernelApi extends SourceApi with LogApi {
  /** How this Spark differs from what the kernel relies on, in words for the user; null if it does not. */
  def selfCheck(session: AnySession): String = PlanCheck.problem(session).orNull

  /** Makes what Spark sends to tasks smaller; for a session of keyfold's own. */
  def forgetSettingOrigins(session: AnySession): Unit =
    SparkHadoopSettings.forgetOrigins(session.sparkContext.hadoopConfiguration)

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
   * A stream with a table's newest row for its key; `declaration` is JSON, as `ArrivalEnrichDeclaration` has
   * it.
   */
  def enrich(both: DataFrame, declaration: String): DataFrame =
    new EnrichPlanner(session(both)).byArrival(both, ArrivalEnrichDeclaration.parse(declaration))

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

  // The home, and state on disk

  /** What keeps executors from using a home, by host, as JSON; `tasks`: how many try. */
  def probeHome(session: AnySession, home: String, tasks: Int): String =
    json(HomeProbe.failures(SparkDatasets.session(session), home, tasks).asJava)

  /** The stateful operators of a checkpoint as JSON: each one's number, name and properties. */
  def stateOperators(session: AnySession, checkpoint: String, batch: Long): String =
    json(SparkStateRewriter.described(session, checkpoint, batch)
      .map { case (operator, name, properties) => Array[Any](operator, name, properties) }.toArray)

  /** The state stores of a checkpoint as JSON: pairs of an operator's number and a store's name. */
  def stateStores(session: AnySession, checkpoint: String, batch: Long): String =
    json(SparkStateRewriter.stores(session, checkpoint, batch)
      .map(s => Array[Any](s.operator, s.store)).toArray)

  /** Gives a checkpoint a batch with another state; returns its number. */
  def rewriteState(
      session: AnySession, checkpoint: String, rows: java.util.List[DataFrame], partitions: Int): Long =
    SparkStateRewriter.rewrite(session, checkpoint, rows.asScala.toSeq, partitions)

  /** The digest of rows of a state as JSON: of each column family its name, its rows and their checksum. */
  def stateDigest(rows: DataFrame): String =
    json(StateDigest.of(rows).map(one => Array[Any](one.family, one.rows, one.checksum.toString)).toArray)

  /** A key or a value of a state store, in bytes, as a struct of a schema, which is JSON. */
  def rowFromBytes(bytes: Column, schema: String): Column =
    SparkDatasets.column(RowFromBytes(SparkDatasets.expression(bytes), StructType.fromString(schema)))

  /** A struct as a key or a value of a state store. */
  def bytesOfRow(row: Column): Column = SparkDatasets.column(BytesOfRow(SparkDatasets.expression(row)))
}
