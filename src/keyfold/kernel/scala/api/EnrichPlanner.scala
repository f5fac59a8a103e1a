package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Union}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.enrich.{ArrivalEnrichProcessor, EnrichInputLayout, EnrichLayout}
import org.apache.spark.sql.keyfold.enrich.{EnrichOperator, EnrichRequestLayout, EnrichSettings}
import org.apache.spark.sql.keyfold.enrich.EventTimeEnrichProcessor
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode, StatefulOperator}
import org.apache.spark.sql.keyfold.rows.admission.LatenessCheck
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.streaming.TimeMode
import org.apache.spark.sql.types._
import org.apache.spark.sql.DataFrame

/**
 * How a stream is enriched. `keepRows`, `keepValues`: whether rows without a value, or values without a row,
 * go on. `waitMs`: how long a row waits for a value. `follow`: rows are kept, for `keepMs` or for good, and
 * retracted and emitted again when their value changes.
 */
case class EnrichOptions(
    keepRows: Boolean, keepValues: Boolean, waitMs: Option[Long], follow: Boolean, keepMs: Option[Long]) {
  def settings: EnrichSettings =
    EnrichSettings(keepRows, keepValues, waitMs.map(_ * 1000), follow, keepMs.map(_ * 1000))

  def waitsForTime: Boolean = waitMs.isDefined || keepMs.isDefined
}

/**
 * A stream with a table's newest row. The first `keys` columns are the key. `timed`: rows have an event time.
 * `names`: the columns of the result, those of the row, without its id, and then those of the value. `on`:
 * where in the row the key's columns are, which for a value without a row are filled from the key.
 */
case class ArrivalEnrichDeclaration(
    keys: Int, options: EnrichOptions, timed: Boolean, names: Seq[String], on: Seq[Int])

object ArrivalEnrichDeclaration {
  /** From JSON, as engine/compile/enrich.py writes it. */
  def parse(declaration: String): ArrivalEnrichDeclaration = {
    val json = KernelJson.mapper.readTree(declaration)
    def length(name: String) = Option(json.get(name)).filterNot(_.isNull).map(_.asLong)
    val options = EnrichOptions(
      json.get("keepRows").asBoolean, json.get("keepValues").asBoolean, length("waitMs"),
      json.get("follow").asBoolean, length("keepMs"))
    ArrivalEnrichDeclaration(json.get("keys").asInt, options, json.get("timed").asBoolean,
      json.get("names").asScala.map(_.asText).toSeq, json.get("on").asScala.map(_.asInt).toSeq)
  }
}

/** Plans a stream whose rows are joined with a table's row for their key. */
class EnrichPlanner(spark: SparkSession) {
  KernelStrategy.install(spark)

  /** With the table's newest row. `both`: rows and values with the columns of `EnrichLayout`. */
  def byArrival(both: DataFrame, declaration: ArrivalEnrichDeclaration): DataFrame = {
    import declaration._
    val declared = SparkDatasets.plan(both)
    val child = StatefulOperator.withoutEventTimeMetadata(declared)
    val in = EnrichInputLayout.of(child, keys)
    val layout = EnrichLayout(keys, in.rowType, in.valueType)
    val (rowIds, fields) = in.rowFields.zipWithIndex.partition { case (_, i) => i == layout.idIndex }
    val row = fields.map { case (field, i) =>
      val key = on.indexOf(i)
      if (options.keepValues && key >= 0) Coalesce(Seq(field, in.keys(key))) else field
    }
    val own = Seq(
      Option.when(timed)(InternalColumns.Time -> in.time),
      Option.when(options.follow)(InternalColumns.Weight -> in.weight),
      rowIds.headOption.map { case (id, _) => InternalColumns.RowId -> id },
      Some(InternalColumns.SideOutput -> in.sideOutput)).flatten
    val columns: Seq[Expression] = row ++ in.valueFields ++ own.map(_._2)
    val processor = new ArrivalEnrichProcessor(
      layout, options.settings, columns, layout.joinedRow(child.output, in.value))
    val mode =
      if (!options.waitsForTime) TimeMode.None()
      else if (timed) TimeMode.EventTime()
      else TimeMode.ProcessingTime()
    val timeMetadata = EnrichInputLayout.of(declared, keys).time.metadata
    EnrichOperator(spark, child, processor, names ++ own.map(_._1), timeMetadata, mode)
  }

  /**
   * With the row that the declared table had at each row's event time. `requests`: the stream's rows, with
   * the columns of `EnrichRequestLayout`. The table's own rows are folded beside them, into versions by event
   * time.
   */
  def asOf(
      declared: Declaration,
      source: LogicalPlan,
      requests: DataFrame,
      keepUnmatched: Boolean,
      waitMs: Option[Long],
      names: Seq[String]): DataFrame = {
    val keys = declared.shuffledKeys
    val lateness = LatenessCheck(None, declared.source, declared.time)
    val table = OrderedRows(declared, declared.columnFold, declared.source, keys, Some(lateness))
    val requestPlan = SparkDatasets.plan(requests)
    val request = EnrichRequestLayout.of(requestPlan, keys.length)
    val value = StructType(table.layout.columns.map(a => StructField(a.name, a.dataType)))
    val options = EnrichOptions(keepUnmatched, keepValues = false, waitMs, follow = false, keepMs = None)
    val layout = EnrichLayout(keys.length, request.rowType, value)

    val streamSide = EnrichInputLayout.streamSide(requestPlan, request, value)
    val tableRows = PartitionStepNode(table.step, table.layout.shuffled.input, source)
    val tableSide = EnrichInputLayout.tableSide(
      tableRows, keys, table.layout.columns, table.layout.order, table.layout.sideOutput, request.rowType)
    val union = SparkDatasets.analyzed(SparkDatasets.frame(spark, Union(Seq(streamSide, tableSide))))
    val both = StatefulOperator.withoutEventTimeMetadata(union)
    val in = EnrichInputLayout.of(both, keys.length)

    val fold = table.fold.copy(previous = true, in = table.layout.columns)
    // What a match adds to a row is the table's row as its changelog would have it: the operation, then the
    // columns.
    val version = AttributeReference("value", fold.seen)()
    val columns = in.rowFields ++ fold.seen.indices.tail.map(GetStructField(version, _))
    val processor = new EventTimeEnrichProcessor(
      layout, options.settings, fold, declared.ttlMs, columns ++ Seq(in.time, in.sideOutput),
      layout.joinedRow(both.output, version))
    EnrichOperator(spark, both, processor, names ++ Seq(InternalColumns.Time, InternalColumns.SideOutput),
      request.time.metadata, TimeMode.EventTime())
  }
}
