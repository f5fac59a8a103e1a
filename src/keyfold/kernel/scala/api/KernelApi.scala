package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LeafNode
import org.apache.spark.sql.classic.{Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.execution.keyfold.io.WatchedFileSource
import org.apache.spark.sql.execution.keyfold.lookup.LookupTable
import org.apache.spark.sql.keyfold.enrich.{ArrivalEnrichProcessor, EnrichLayout, EnrichOperator, EnrichSettings}
import org.apache.spark.sql.keyfold.expressions.{ColumnScope, InternalColumns, ValidEventTime}
import org.apache.spark.sql.keyfold.join.StreamJoin
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode, PlanCheck, SortByKeyAndTime, StatefulOperator, WatermarkPropagation}
import org.apache.spark.sql.keyfold.rows.{CsvHeaderCheck, RowOrigin, SideOutput, SideOutputBuilder}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Row, SparkSession => AnySession}

/**
 * What Python calls beside a table's pipeline. Several values go back as an array or as JSON: Python learns where a list or a map ends from an exception, and
 * PySpark takes 50 ms to find out which.
 */
object KernelApi {
  /** Rows of a stage in the order that folds see them in, for an operator of Spark's own. */
  def ordered(df: DataFrame, keys: java.util.List[String]): DataFrame = SortByKeyAndTime.rows(df, keys)

  /** How this Spark differs from what the kernel relies on, in words for the user; empty if it does not. */
  def selfCheck(session: AnySession): String = PlanCheck.problem(session).getOrElse("")

  /** Columns that state can't keep. */
  def unfit(schema: String): Array[String] = StructType.fromString(schema).filterNot(f => ColumnScope.storable(f.dataType)).map(_.name).toArray

  /** A lookup, without rows yet. */
  def lookup(): LookupTable = new LookupTable

  /** A table's plan that the kernel has not built, with what it must have on top. */
  def informed(df: DataFrame): DataFrame = {
    val session = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(session)
    Dataset.ofRows(session, WatermarkPropagation(df.asInstanceOf[Dataset[Row]].logicalPlan))
  }

  /** A join of two streams, of which `left` and `right` show the columns; they are called by these names in its condition. */
  def joining(left: DataFrame, right: DataFrame, leftName: String, rightName: String): StreamJoin = new StreamJoin(left, right, leftName, rightName)

  /** How the times in a late row's text are read. */
  def exact: String = KernelJson.mapper.writeValueAsString(SideOutputBuilder.exactTimes.asJava)

  /**
   * A stream that meets a table: `both` has the columns of `EnrichLayout`, of which the first so many are keys. `names`: what the columns that go on are called, those of
   * the row and then those of the value; where values go on alone, a column of the row at `on` is the key's then. Lengths below zero are none.
   */
  def meet(both: DataFrame, keys: Int, rows: Boolean, values: Boolean, waitMs: Long, follow: Boolean, keepMs: Long, timed: Boolean, names: java.util.List[String], on: java.util.List[Integer]): DataFrame = {
    val spark = both.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    val child = StatefulOperator.withoutEventTimeMetadata(both.asInstanceOf[Dataset[Row]].logicalPlan)
    val in = child.output
    def some(ms: Long) = Some(ms * 1000).filter(_ >= 0)
    val (row, value) = (in(keys).dataType.asInstanceOf[StructType], in(keys + 1).dataType.asInstanceOf[StructType])
    val m = EnrichLayout(keys, row, value)
    val settings = EnrichSettings(rows, values, some(waitMs), follow, some(keepMs))
    val mine = row.indices.map { i =>
      val field = GetStructField(in(m.rowIndex), i)
      if (values && on.contains(i)) Coalesce(Seq(field, in(on.indexOf(i)))) else field
    }
    val fields: Seq[Expression] = mine ++ value.indices.map(GetStructField(in(m.valueIndex), _))
    val own = (if (timed) Seq(InternalColumns.Time -> in(m.timeIndex)) else Nil) ++ (if (follow) Seq(InternalColumns.Weight -> in(m.weightIndex)) else Nil) :+ (InternalColumns.SideOutput -> in(m.sideOutputIndex))
    val met = new ArrivalEnrichProcessor(m, settings, fields ++ own.map(_._2), m.joinedRow(in, in(m.valueIndex)))
    val mark = both.asInstanceOf[Dataset[Row]].logicalPlan.output(m.timeIndex).metadata
    val clock = if (waitMs < 0 && keepMs < 0) TimeMode.None() else if (timed) TimeMode.EventTime() else TimeMode.ProcessingTime()
    EnrichOperator(spark, child, met, names.asScala.toSeq ++ own.map(_._1), mark, clock)
  }

  /** A stream's time where it is one that can be, else null; `aheadMs` is below zero where no time is too far ahead of the clock. */
  def usable(time: Column, aheadMs: Long): Column =
    ExpressionUtils.column(ValidEventTime(ExpressionUtils.expression(time), CurrentTimestamp(), Some(aheadMs * 1000).filter(_ >= 0)))

  /** Files that are known by their names, of a stream or of the directory `within`; it and `recursive` may be null. */
  def files(df: DataFrame, stream: String, within: String, recursive: String): DataFrame =
    WatchedFileSource.files(df, stream, Option(within), Option(recursive))

  /** The directory below which the files of each stream have their names, as JSON. */
  def directories(df: DataFrame): String =
    KernelJson.mapper.writeValueAsString(WatchedFileSource.directories(df).map(p => p.stream -> p.base.toString).toMap.asJava)

  /**
   * The number of the source behind each position in Spark's log of offsets, by which its own log is named. A
   * source that a plan has twice has two positions.
   */
  def sources(df: DataFrame): Array[Int] = {
    val leaves = df.asInstanceOf[Dataset[Row]].logicalPlan.collect { case leaf: LeafNode if leaf.isStreaming => leaf }
    leaves.map(leaves.distinct.indexOf(_)).toArray
  }

  /** The files that a stream could read now, as JSON: name, size and time of change. */
  def listed(df: DataFrame, stream: String): String = {
    val place = WatchedFileSource.directories(df).find(_.stream == stream).get
    val files = place.list().map(f => Array[Any](place.name(f.getPath), f.getLen, f.getModificationTime))
    KernelJson.mapper.writeValueAsString(files.toArray)
  }

  /** Where a stream's files of these names are, as JSON, null for those that are not there. */
  def located(df: DataFrame, stream: String, names: java.util.List[String]): String = {
    val place = WatchedFileSource.directories(df).find(_.stream == stream).get
    val files = names.asScala.map(name => place.file(name)).toSeq
    val there = place.existing(files).map(_.getPath).toSet
    KernelJson.mapper.writeValueAsString(files.map(f => Array[Any](shown(f), there(f))).toArray)
  }

  private def shown(file: Path) = if (file.toUri.getScheme == "file") file.toUri.getPath else file.toString

  /**
   * `keep`: rows that can't be used are kept aside; `stream` may be null, and `format` where rows are no texts, else
   * `options` are how Spark reads them; `files`: whether these are files of the user's.
   */
  def pipeline(df: DataFrame, keep: Boolean, stream: String, format: String, options: java.util.Map[String, String], files: Boolean): TableDeclaration =
    new TableDeclaration(df, keep, origin(stream, format, options, files))

  private def origin(stream: String, format: String, options: java.util.Map[String, String], files: Boolean): RowOrigin =
    RowOrigin(Option(stream), format, options.asScala.toMap, files)

  /** Rows of CSV files that begin with a header, without those of files that have another one or none. */
  def headed(df: DataFrame, keep: Boolean, stream: String, options: java.util.Map[String, String]): DataFrame = {
    val spark = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    val child = df.asInstanceOf[Dataset[Row]].logicalPlan
    val columns = child.output.map(_.name).filterNot(InternalColumns.hidden)
    val base = WatchedFileSource.directories(df).head.base.toString
    val zone = spark.sessionState.conf.sessionLocalTimeZone
    val work = CsvHeaderCheck(columns, child.output.length, origin(stream, "csv", options, files = true), keep, zone, base)
    val output = child.output.map(a => AttributeReference(a.name, a.dataType)()) :+ SideOutput.attribute()
    Dataset.ofRows(spark, PartitionStepNode(work, output, child))
  }
}
