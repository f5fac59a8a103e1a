package org.apache.spark.sql.execution.keyfold.log

import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, QuotingUtils}
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.connector.read.streaming.{Offset => ConnectorOffset, _}
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.execution.streaming.runtime.LongOffset
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.functions.{coalesce, col}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * A streaming source of a table's changes, from the manifests of its log. The offset is the newest batch of
 * the table that was read. Rows have the columns that are asked for, the batch, and their position in the
 * part: all changes of a key in one batch are in one part, in order.
 */
class LogSource(
    session: SparkSession,
    log: LogDirectory,
    snapshot: Option[ReaderSnapshot],
    format: FileFormat,
    columns: StructType,
    options: CaseInsensitiveMap[String]) extends SupportsAdmissionControl with Source {
  override val schema: StructType = LogSource.schema(columns)

  private val inParts = columns.add(LogSource.RowIndex, LongType)
  private val unread = new UnreadBatches(log)
  private val limits = LogSource.limits(options)
  // Whatever the session's settings: every part is read, or the batch fails.
  private val readOptions = options ++ Map("ignoreMissingFiles" -> "false", "ignoreCorruptFiles" -> "false")
  // Since the source was started: how many batches were committed, and the end of the last one.
  private var commits = 0
  private var committed: Option[Long] = None

  private def first: Option[ChangeManifest] = snapshot.flatMap(_.manifest)

  override def latestOffset(start: ConnectorOffset, limit: ReadLimit): ConnectorOffset = {
    val read = Option(start).map(LogSource.number).orElse(first.map(_.batch))
    unread.next(read.getOrElse(-1L), limits).orElse(read).map(LongOffset(_)).orNull
  }

  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(limits.rows)

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val begun = if (start.isEmpty) first.toSeq else Nil
    val after = start.map(LogSource.number).orElse(begun.headOption.map(_.batch)).getOrElse(-1L)
    val last = LogSource.number(end)
    val files = new ChangeFiles(
      log, begun ++ unread.between(after, last), begun.map(_.bytes).sum + unread.knownBytes(after, last))
    val frame = if (log.merged.between(after, last)) merged(files, after, last) else read(files, inParts)
    frame.withColumnRenamed(LogSource.RowIndex, InternalColumns.Position)
      .select(schema.fieldNames.map(name => col(QuotingUtils.quoteIdentifier(name))).toSeq: _*)
  }

  private def read(files: ChangeFiles, columns: StructType): DataFrame = {
    val parts = HadoopFsRelation(files, files.partitionSchema, columns, None, format, readOptions)(session)
    Dataset.ofRows(session, LogicalRelation(parts, isStreaming = true))
  }

  /** Where some files have changes of many batches, each with its batch: those of the batches asked for. */
  private def merged(files: ChangeFiles, after: Long, last: Long): DataFrame = {
    val batch = col(InternalColumns.MergedBatch)
    read(files, inParts.add(InternalColumns.MergedBatch, LongType))
      .where(batch.isNull || batch > after && batch <= last)
      .withColumn(InternalColumns.Batch, coalesce(batch, col(InternalColumns.Batch)))
  }

  /**
   * What the newest committed batch has read is kept: its commit may be lost with the machine's power, and
   * the batch then runs again.
   */
  override def commit(end: Offset): Unit = {
    commits += 1
    committed.foreach(unread.forget)
    committed = Some(LogSource.number(end))
    if (commits == 2) snapshot.foreach(_.remove())
  }

  override def getOffset: Option[Offset] = throw QueryExecutionErrors.latestOffsetNotCalledError()

  override def stop(): Unit = ()

  override def toString: String = s"${LogSource.Name}[${log.path}]"
}

object LogSource {
  /** How Spark's progress reports describe such a source, with the log in brackets. */
  val Name = "LogSource"

  /**
   * The column in which Spark's Parquet reader returns a row's position in its file. As a field of
   * `_metadata` it would come with all other facts about the file, for every row, whether it is used or not.
   */
  private val RowIndex = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME

  def schema(columns: StructType): StructType =
    columns.add(InternalColumns.Batch, LongType).add(InternalColumns.Position, LongType)

  private def limits(options: CaseInsensitiveMap[String]): LogLimits = {
    val default = LogLimits()
    LogLimits(
      options.get("maxRowsPerTrigger").map(_.toLong).getOrElse(default.rows),
      options.get("maxBatchesPerTrigger").map(_.toInt).getOrElse(default.batches))
  }

  /** An offset that this source has made, or one of Spark's log. */
  private def number(offset: ConnectorOffset): Long = offset match {
    case LongOffset(batch) => batch
    case logged => logged.json.trim.toLong
  }
}
