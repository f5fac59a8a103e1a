package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns, RowId}
import org.apache.spark.sql.keyfold.pattern.{PatternDeclaration, PatternLayout, PatternProcessor}
import org.apache.spark.sql.keyfold.physical.{MergePartials, PartitionStep, PartitionStepNode}
import org.apache.spark.sql.keyfold.physical.{StatefulOperator, Unwrap, WatermarkPropagation}
import org.apache.spark.sql.keyfold.rows.admission.{BehindWatermark, LatenessCheck, NeverLate}
import org.apache.spark.sql.keyfold.rows.combine.PartialAggregation
import org.apache.spark.sql.keyfold.rows.steps.KeyedRows
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, RecomputedAggregateProcessor}
import org.apache.spark.sql.keyfold.state.RunningAggregateProcessor
import org.apache.spark.sql.keyfold.state.{ShuffledRowLayout, TimerBuckets, TopN, TopNProcessor}
import org.apache.spark.sql.keyfold.window.{PaneOf, ProcessorParts}
import org.apache.spark.sql.streaming.TimeMode
import org.apache.spark.sql.types._

/** How the rows of a key come together behind the shuffle. */
sealed trait KeyGroupingPlan
object KeyGroupingPlan {
  /** By the sort that Spark's operator asks for. */
  case object SparkSort extends KeyGroupingPlan
  /** Side by side, in no other order. */
  case object Adjacent extends KeyGroupingPlan
  /** Side by side, and merged where they have equal columns `by`. */
  case class Merged(fold: AggregateFold, by: Seq[Attribute]) extends KeyGroupingPlan
}

/** A table's plan: the step before the shuffle, the rows that it sends, and the processor behind it. */
case class TablePlan(
    step: PartitionStep,
    layout: ShuffledRowLayout,
    groupBy: Seq[Attribute],
    grouping: KeyGroupingPlan,
    processor: KeyedProcessor,
    timeMode: TimeMode) {
  def changes: ChangeLayout = ChangeLayout(processor.fold)

  /** The table's changelog over the rows of its source. */
  def over(source: LogicalPlan): LogicalPlan = {
    val sent = PartitionStepNode(step, layout.input, source)
    val grouped = grouping match {
      case KeyGroupingPlan.SparkSort => sent
      case KeyGroupingPlan.Adjacent => MergePartials(None, groupBy, groupBy, sent)
      case KeyGroupingPlan.Merged(fold, by) => MergePartials(Some(fold), groupBy, by, sent)
    }
    WatermarkPropagation(Unwrap(changes.attributes, StatefulOperator(grouped, groupBy, processor, timeMode)))
  }
}

/**
 * Plans a declared table, one method per kind of table. `source`: the columns of the source that are read.
 */
class TablePlanner(declared: Declaration, source: Seq[Attribute]) {
  import declared.{input, pattern, rowId, scope, time, ttlMs, weight, window}
  private val keys = declared.shuffledKeys
  private val timeMode =
    if (!declared.waitsForTime) TimeMode.None()
    else if (time.isEmpty) TimeMode.ProcessingTime()
    else TimeMode.EventTime()
  // Also where no window asks for it: a row with an impossible event time is rejected by every table alike.
  private val lateness =
    if (window.isEmpty && time.isEmpty) None else Some(LatenessCheck(window.map(_.lateness), source, time))

  def plan: TablePlan =
    if (pattern.isDefined) patternMatches(pattern.get)
    else if (declared.recomputesAggregates) recomputedAggregates
    else if (declared.ranksRetainedRows) rankedRows(declared.topN.get)
    else if (declared.foldsInOrder) orderedFolds
    else partialAggregates

  /** Aggregates that merge: rows are pre-aggregated by key, or by key and pane, before the shuffle. */
  private def partialAggregates: TablePlan = {
    val panes = window.flatMap(_.panes)
    val group = declared.keyExpressions ++ panes.map(p => Alias(PaneOf(time.get, p), InternalColumns.Pane)())
    val fold = declared.stateFold.reading(source)(scope.inSource)
    val entries = if (declared.rowByRow) 0 else TablePlanner.mapEntries(scope.spark)
    val step = PartialAggregation(declared.gate(source), group, fold, entries, lateness)
    val layout = PartialStateLayout(keys, panes.isDefined, fold)
    val shuffled = layout.shuffled
    // States of variable width can't be merged in place. In real-time mode Spark asks for no order.
    val merges = fold.flat && !declared.rowByRow
    val grouping = if (merges) KeyGroupingPlan.Merged(fold, layout.group) else KeyGroupingPlan.SparkSort
    TablePlan(step, shuffled, keys, grouping, processor(fold, shuffled, layout.state), timeMode)
  }

  /** Folds that see a key's rows in order, and rolling windows: rows are sent one by one. */
  private def orderedFolds: TablePlan = {
    val rows = OrderedRows(declared, declared.stateFold, source, keys, lateness)
    val shuffled = rows.layout.shuffled
    TablePlan(rows.step, shuffled, keys, KeyGroupingPlan.SparkSort,
      processor(rows.fold, shuffled, rows.layout.columns), timeMode)
  }

  private def processor(
      fold: AggregateFold,
      layout: ShuffledRowLayout,
      columns: Seq[Attribute]): KeyedProcessor = window match {
    case Some(kind) => kind.processor(ProcessorParts(fold, layout, columns, input.sideOutput, ttlMs))
    case None => new RunningAggregateProcessor(fold, layout, input.sideOutput, ttlMs)
  }

  /**
   * Aggregates without an inverse over a retracting stream: the columns that they read are retained by row.
   */
  private def recomputedAggregates: TablePlan = {
    val read = (scope.seen ++ scope.source).filter(declared.columnFold.references.contains)
    val rows = retainedRows(read.map(a => a.name -> scope.inSource(a)))
    val columns = AttributeMap(read.zip(rows.layout.columns))
    val fold = declared.columnFold.reading(rows.layout.retained)(_.transform {
      case a: AttributeReference if columns.contains(a) => columns(a)
    })
    rows.plan(new RecomputedAggregateProcessor(fold.copy(previous = declared.emitsPreviousRow),
      rows.layout.shuffled, input.sideOutput, rows.layout.retained, rows.layout.retraction))
  }

  /** Whole rows, the first by an order or the newest: shown columns and order columns are retained by row. */
  private def rankedRows(topN: TopN): TablePlan = {
    val shown = declared.shownColumns
    val orderColumns = topN.orders.zipWithIndex.map { case (o, i) => s"_order$i" -> scope.inSource(o.child) }
    val rows = retainedRows(shown ++ orderColumns)
    val (shownBehind, ordersBehind) = rows.layout.columns.splitAt(shown.length)
    val orders = topN.orders.zip(ordersBehind).map { case (o, a) =>
      o.copy(child = a, sameOrderExpressions = Nil)
    }
    // The newest row is the only one of its key.
    val rank = Option.when(orders.nonEmpty)(
      AttributeReference(InternalColumns.Rank, IntegerType, nullable = false)())
    val fold = TablePlanner.rowAsState(
      declared.keyColumns ++ rank, rows.layout.retained, shownBehind, declared.emitsPreviousRow)
    // Of a topic, a key may be deleted that was never read, or twice.
    val retraction = rows.layout.retraction.copy(ignoresUnknown = declared.readsMessages)
    rows.plan(new TopNProcessor(fold, rows.layout.shuffled, input.sideOutput, rows.layout.retained,
      retraction, ttlMs, topN.copy(orders = orders)))
  }

  private case class RetainedRows(step: KeyedRows, layout: RowLayout) {
    def plan(processor: KeyedProcessor): TablePlan =
      TablePlan(step, layout.shuffled, keys, KeyGroupingPlan.SparkSort, processor, timeMode)
  }

  private def retainedRows(sent: Seq[(String, Expression)]): RetainedRows = {
    val retracting = rowId.map(RowId.id) ++ weight ++ rowId.map(RowId.change)
    val step = KeyedRows(
      declared.gate(source), declared.keyExpressions, sent.map(_._2) ++ retracting, time, lateness)
    val columns = sent.map { case (name, e) => AttributeReference(name, e.dataType)() }
    RetainedRows(step, RowLayout(keys, columns, RetractingColumns(weight, rowId), step.added))
  }

  /**
   * Matches of a pattern: the columns that matches keep, and which conditions a row fulfils, are sent by row.
   */
  private def patternMatches(p: PatternDeclaration): TablePlan = {
    val rule = time.map(_ => if (p.settings.eventOrder) BehindWatermark(inclusive = false) else NeverLate)
    val gate = declared.gate(source)
    // A row without a key is rejected, even where no condition holds for it.
    val unkeyed = declared.keyColumns.map(k => IsNull(scope.inSource(k)))
    val relevant = p.relevant.map(r => unkeyed.foldLeft(r)(Or(_, _)))
    val bucket = Alias(TimerBuckets.of(declared.keyExpressions), InternalColumns.Pane)()
    val step = KeyedRows(
      gate.copy(conditions = gate.conditions ++ relevant), bucket +: declared.keyExpressions,
      Seq(p.storedRow, p.mask), time, Some(LatenessCheck(rule, source, time)), bare = true)
    val layout = PatternLayout(AttributeReference(bucket.name, bucket.dataType)(), keys, p.storedRow.dataType)
    val fold = declared.columnFold.copy(previous = declared.emitsPreviousRow)
    TablePlan(step, layout.shuffled, Seq(layout.bucket), KeyGroupingPlan.Adjacent,
      new PatternProcessor(fold, layout, input.sideOutput, p.settings),
      if (time.isEmpty) TimeMode.ProcessingTime() else TimeMode.EventTime())
  }
}

object TablePlanner {
  /** How many keys a task holds while it pre-aggregates. */
  private def mapEntries(spark: SparkSession): Int =
    spark.sessionState.conf.getConfString("spark.keyfold.combineEntries", (1 << 17).toString).toInt

  /** A fold whose state is a retained row, of which `shown` are the result. */
  private def rowAsState(
      keys: Seq[Attribute],
      row: Seq[AttributeReference],
      shown: Seq[Attribute],
      previous: Boolean): AggregateFold =
    AggregateFold(
      in = row,
      keys = keys,
      state = row,
      right = row.map(_.newInstance().asInstanceOf[AttributeReference]),
      zero = row.map(a => Literal(null, a.dataType)),
      update = row,
      merge = None,
      result = shown,
      coded = Nil,
      previous = previous)
}
