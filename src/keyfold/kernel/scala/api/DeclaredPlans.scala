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
 * schemas, and its plan. Lengths of time are in milliseconds, and zero where there is none.
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
  def changelogSchema(ttlMs: Long): String = planner(ttlMs).plan.changes.schema.json

  /** The schema of the table's state, as JSON. */
  def stateSchema(ttlMs: Long): String = planner(ttlMs).plan.processor.stateSchema.json

  /** How the table keeps its state, and the fields of one state, as JSON; see `StateFields`. */
  def stateFields(ttlMs: Long): String = new StateFields(planner(ttlMs).plan).json

  /** Takes the table's state over from an old definition, of which it is the schema, as JSON. */
  def migration(ttlMs: Long, oldState: String): StateMigration =
    new StateMigration(
      spark, planner(ttlMs).plan, declared.shuffledKeys, Some(ttlMs).filter(_ > 0), oldState)

  private def planner(ttlMs: Long, source: Seq[Attribute] = declared.source): TablePlanner =
    new TablePlanner(declared, source, Some(ttlMs).filter(_ > 0))

  // Plans

  /**
   * The stream's rows. `late`: rows "below" the watermark, or "upto" it, are side outputs, since the operator
   * above can't use them any more; "" for neither.
   */
  def rows(late: String): DataFrame = {
    val rule = if (late.isEmpty) None else Some(BehindWatermark(inclusive = late == "upto"))
    frame(new StreamPlanner(declared).rows(sourcePlan, rule))
  }

  /** The rows that the stream's own log records; see `StreamPlanner`. */
  def recorded(): DataFrame = frame(new StreamPlanner(declared).recorded(sourcePlan))

  /** A stream's rows with this table's row as of their event time; see `EnrichPlanner`. */
  def enrichAsOf(
      requests: DataFrame,
      keepUnmatched: Boolean,
      waitMs: Long,
      ttlMs: Long,
      names: java.util.List[String]): DataFrame =
    new EnrichPlanner(spark).asOf(
      declared, sourcePlan, requests, keepUnmatched, waitMs, Some(ttlMs).filter(_ > 0), names.asScala.toSeq)

  /** The table's changes and side outputs. `columns`: those that the source is asked for, or null for all. */
  def changelog(ttlMs: Long, columns: java.util.List[String]): DataFrame = {
    val wanted = Option(columns).map(_.asScala.toSet)
    // Sums subtract what a retraction says: they need no id, which costs an array of bytes per row.
    val source = declared.source.filter { a =>
      if (a.name == InternalColumns.RowId) declared.retractsRetainedRows
      else InternalColumns.hidden(a.name) || wanted.forall(_(a.name))
    }
    val all = source.length == declared.source.length
    frame(planner(ttlMs, source).plan.over(if (all) sourcePlan else pruned(source)))
  }

  private def pruned(source: Seq[Attribute]): LogicalPlan = {
    val columns = declared.source.zip(sourcePlan.output)
    Project(columns.collect { case (a, column) if source.contains(a) => column }, sourcePlan)
  }

  /**
   * The table's rows from its state, or from the closed windows it keeps, as Spark's statestore source reads
   * them.
   */
  def rowsFromState(state: DataFrame, ttlMs: Long, keptWindows: Boolean): DataFrame = {
    val plan = planner(ttlMs).plan
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
