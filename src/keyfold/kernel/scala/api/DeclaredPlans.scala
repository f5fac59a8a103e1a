package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.keyfold.expressions.{ColumnScope, InternalColumns}
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, PartitionStepNode}
import org.apache.spark.sql.keyfold.rows.admission.BehindWatermark
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.keyfold.state.StateToRows

/**
 * What Python asks of a table, or of a step of a stream, once it is declared: what it reads and means, its
 * schemas, and its plan. Lengths of time are in milliseconds. What is missing is null.
 */
abstract class DeclaredPlans(df: DataFrame, input: InputSettings) {
  protected val spark = SparkDatasets.session(df)
  protected var declared: Declaration = {
    val scope = ColumnScope.of(spark, df.schema, InternalColumns.hidden)
    Declaration(input, scope, scope)
  }

  def hasEventTime: Boolean = declared.time.isDefined

  /** The names of the source's columns that the table reads. */
  def sourceColumns: Array[String] = declared.columnsRead.map(_.name).toArray

  /** What the declaration means, part by part, as a JSON object. */
  def fingerprints: String = {
    val parts = new java.util.LinkedHashMap[String, String]()
    new DeclarationFingerprint(declared).parts.foreach { case (part, text) => parts.put(part, text) }
    KernelJson.mapper.writeValueAsString(parts)
  }

  /** The columns of the table's changelog, as JSON. */
  def changelogSchema: String = planner().plan.changes.schema.json

  /** The schema of the table's state, as JSON. */
  def stateSchema: String = planner().plan.processor.stateSchema.json

  /** How the table keeps its state, and the fields of one state, as JSON; see `StateFields`. */
  def stateFields: String = new StateFields(planner().plan).json

  /** Takes the table's state over from an old definition, of which it is the schema, as JSON. */
  def migration(oldState: String): StateMigration =
    new StateMigration(spark, planner().plan, declared.shuffledKeys, declared.ttlMs, oldState)

  private def planner(source: Seq[Attribute] = declared.source): TablePlanner =
    new TablePlanner(declared, source)

  // Plans

  /**
   * The stream's rows. `late`: rows "below" the watermark, or "upto" it, are side outputs, since the operator
   * above can't use them any more; null for neither.
   */
  def rows(late: String): DataFrame = {
    val rule = Option(late).map(rows => BehindWatermark(inclusive = rows == "upto"))
    frame(new StreamPlanner(declared).rows(sourcePlan, rule))
  }

  /** The rows that the stream's own log records; see `StreamPlanner`. */
  def recorded(): DataFrame = frame(new StreamPlanner(declared).recorded(sourcePlan))

  /** A stream's rows with this table's row as of their event time; see `EnrichPlanner`. */
  def enrichAsOf(
      requests: DataFrame,
      keepUnmatched: Boolean,
      waitMs: java.lang.Long,
      names: java.util.List[String]): DataFrame =
    new EnrichPlanner(spark).asOf(
      declared, sourcePlan, requests, keepUnmatched, Option(waitMs).map(_.toLong), names.asScala.toSeq)

  /** The table's changes and side outputs. `columns`: those that the source is asked for, or null for all. */
  def changelog(columns: java.util.List[String]): DataFrame = {
    val wanted = Option(columns).map(_.asScala.toSet)
    // Sums subtract what a retraction says: they need no id, which costs an array of bytes per row.
    val source = declared.source.filter { a =>
      if (a.name == InternalColumns.RowId) declared.retractsRetainedRows
      else InternalColumns.hidden(a.name) || wanted.forall(_(a.name))
    }
    val all = source.length == declared.source.length
    frame(planner(source).plan.over(if (all) sourcePlan else pruned(source)))
  }

  private def pruned(source: Seq[Attribute]): LogicalPlan = {
    val columns = declared.source.zip(sourcePlan.output)
    Project(columns.collect { case (a, column) if source.contains(a) => column }, sourcePlan)
  }

  /**
   * The table's rows from its state, or from the closed windows it keeps, as Spark's statestore source reads
   * them.
   */
  def rowsFromState(state: DataFrame, keptWindows: Boolean): DataFrame = {
    val plan = planner().plan
    val columns = state.select("key", if (keptWindows) "user_map_value" else "value")
    val step = StateToRows(plan.processor, declared.keys.length, keptWindows)
    frame(PartitionStepNode(step, plan.changes.attributes, SparkDatasets.plan(columns)))
  }

  protected def sourcePlan: LogicalPlan = SparkDatasets.plan(df)

  protected def frame(plan: LogicalPlan): DataFrame = {
    KernelStrategy.install(spark)
    SparkDatasets.frame(spark, plan)
  }
}
