package org.apache.spark.sql.keyfold

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Column, DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project, TransformWithState}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.execution.keyfold.{Reference, Watched}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * What Python calls beside a table's pipeline. Several values go back as an array or as JSON: Python learns where a list or a map ends from an exception, and
 * PySpark takes 50 ms to find out which.
 */
object Api {
  /** Rows of a stage in the order that folds see them in, for an operator of Spark's own. */
  def ordered(df: DataFrame, keys: java.util.List[String]): DataFrame = Ordered.rows(df, keys)

  /** Columns that state can't keep. */
  def unfit(schema: String): Array[String] = StructType.fromString(schema).filterNot(f => Lens.storable(f.dataType)).map(_.name).toArray

  /** A lookup, without rows yet. */
  def lookup(): Reference = new Reference

  /** A table's plan that the kernel has not built, with what it must have on top. */
  def informed(df: DataFrame): DataFrame = {
    val session = df.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(session)
    Dataset.ofRows(session, Informed(df.asInstanceOf[Dataset[Row]].logicalPlan))
  }

  /** A join of two streams, of which `left` and `right` show the columns; they are called by these names in its condition. */
  def joining(left: DataFrame, right: DataFrame, leftName: String, rightName: String): Joining = new Joining(left, right, leftName, rightName)

  /** How the times in a late row's text are read. */
  def exact: String = Rejects.mapper.writeValueAsString(Rejects.exact.asJava)

  /** The same columns without marks of event time, by which Spark's operators drop late rows in silence. */
  def unmarked(child: LogicalPlan): LogicalPlan =
    Project(child.output.map(a => if (a.metadata == Metadata.empty) a else Alias(a, a.name)(explicitMetadata = Some(Metadata.empty))), child)

  /** An operator of the kernel's over rows by their key. */
  def stateful(child: LogicalPlan, keyOut: Seq[Attribute], processor: StatefulProcessor[_, _, _], mode: TimeMode): LogicalPlan = {
    val keySchema = StructType(keyOut.map(k => StructField(k.name, k.dataType)))
    val obj = AttributeReference("obj", ObjectType(classOf[InternalRow]), nullable = false)()
    new TransformWithState(WholeRow(), WholeRow(), keyOut, child.output, processor.asInstanceOf[StatefulProcessor[Any, Any, Any]], mode, OutputMode.Update(),
      Raw.encoder(keySchema).asInstanceOf[ExpressionEncoder[Any]], obj, child, false, keyOut, child.output, WholeRow(),
      LocalRelation(DataTypeUtils.toAttributes(keySchema)))
  }

  /**
   * A stream that meets a table: `both` has the columns of `Meeting`, of which the first so many are keys. `names`: what the columns that go on are called, those of
   * the row and then those of the value; where values go on alone, a column of the row at `on` is the key's then. Lengths below zero are none.
   */
  def meet(both: DataFrame, keys: Int, rows: Boolean, values: Boolean, waitMs: Long, follow: Boolean, keepMs: Long, timed: Boolean, names: java.util.List[String], on: java.util.List[Integer]): DataFrame = {
    val spark = both.sparkSession.asInstanceOf[SparkSession]
    KernelStrategy.install(spark)
    val child = unmarked(both.asInstanceOf[Dataset[Row]].logicalPlan)
    val in = child.output
    def some(ms: Long) = Some(ms * 1000).filter(_ >= 0)
    val (row, value) = (in(keys).dataType.asInstanceOf[StructType], in(keys + 1).dataType.asInstanceOf[StructType])
    val m = Meeting(keys, row, value, rows, values, some(waitMs), follow, some(keepMs))
    val mine = row.indices.map { i =>
      val field = GetStructField(in(m.rowAt), i)
      if (values && on.contains(i)) Coalesce(Seq(field, in(on.indexOf(i)))) else field
    }
    val fields: Seq[Expression] = mine ++ value.indices.map(GetStructField(in(m.valueAt), _))
    val own = (if (timed) Seq(Names.Time -> in(m.time)) else Nil) ++ (if (follow) Seq(Names.Weight -> in(m.weight)) else Nil) :+ (Names.Bad -> in(m.bad))
    val met = new Enriched(m, fields ++ own.map(_._2), m.said(in, in(m.valueAt)))
    val mark = both.asInstanceOf[Dataset[Row]].logicalPlan.output(m.time).metadata
    val clock = if (waitMs < 0 && keepMs < 0) TimeMode.None() else if (timed) TimeMode.EventTime() else TimeMode.ProcessingTime()
    Meeting.plan(spark, child, met, names.asScala.toSeq ++ own.map(_._1), mark, clock)
  }

  /** A stream's time where it is one that can be, else null; `aheadMs` is below zero where no time is too far ahead of the clock. */
  def usable(time: Column, aheadMs: Long): Column =
    ExpressionUtils.column(Usable(ExpressionUtils.expression(time), CurrentTimestamp(), Some(aheadMs * 1000).filter(_ >= 0)))

  /** Files that are known by their names, of a stream or of the directory `within`; it and `recursive` may be null. */
  def files(df: DataFrame, stream: String, within: String, recursive: String): DataFrame =
    Watched.files(df, stream, Option(within), Option(recursive))

  /** The directory below which the files of each stream have their names, as JSON. */
  def directories(df: DataFrame): String =
    Rejects.mapper.writeValueAsString(Watched.places(df).map(p => p.stream -> p.base.toString).toMap.asJava)

  /** The number of the source behind each offset of a batch. */
  def sources(df: DataFrame): Array[Int] = Watched.numbers(df).toArray

  /** The files that a stream could read now, as JSON: name, size and time of change. */
  def listed(df: DataFrame, stream: String): String = {
    val place = Watched.places(df).find(_.stream == stream).get
    val files = place.list().map(f => Array[Any](place.name(f.getPath), f.getLen, f.getModificationTime))
    Rejects.mapper.writeValueAsString(files.toArray)
  }

  /** Where a stream's files of these names are, as JSON, null for those that are not there. */
  def located(df: DataFrame, stream: String, names: java.util.List[String]): String = {
    val place = Watched.places(df).find(_.stream == stream).get
    val files = names.asScala.map(name => place.file(name)).toSeq
    val there = place.there(files).map(_.getPath).toSet
    Rejects.mapper.writeValueAsString(files.map(f => Array[Any](shown(f), there(f))).toArray)
  }

  private def shown(file: Path) = if (file.toUri.getScheme == "file") file.toUri.getPath else file.toString

  /** `keep`: rows that can't be used are kept aside; `stream` and `csv`, the options of CSV files, may be null. */
  def pipeline(df: DataFrame, keep: Boolean, stream: String, csv: java.util.Map[String, String]): Pipeline =
    new Pipeline(df, keep, Origin(Option(stream), Option(csv).map(_.asScala.toMap)))
}
