package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.keyfold.expressions.{AfterInitialRows, EvaluateAll}
import org.apache.spark.sql.keyfold.expressions.{RefusedException, SparkAggregates, StorableTypes, UserFold}
import org.apache.spark.sql.keyfold.expressions.ValidKey
import org.apache.spark.sql.keyfold.pattern.{Automaton, PatternDeclaration}
import org.apache.spark.sql.keyfold.state.TopN
import org.apache.spark.sql.keyfold.window.{ClosingWindow, ConstantGap, GapPerRow, RollingWindow}
import org.apache.spark.sql.keyfold.window.{SessionWindow, TimeWindow, WindowEmission, WindowGrid, WindowKind}
import org.apache.spark.sql.{Column, DataFrame}

/**
 * A table, or a step of a stream, as Python declares it. Each method takes one thing that the user declared
 * and analyzes it at once, so that an error is about that thing. Lengths of time are in milliseconds. What
 * is missing is null. `DeclaredPlans` has what Python asks of it afterwards.
 */
class TableDeclaration(df: DataFrame, input: InputSettings) extends DeclaredPlans(df, input) {
  // Rows

  def where(condition: Column): Unit = {
    val scope = declared.scope
    require(scope.inSource(scope.where(condition)))
  }

  def select(columns: java.util.List[Column]): Unit = {
    val scope = declared.scope.select(columns.asScala.toSeq)
    declared = declared.copy(scope = scope)
    // Evaluated even if nothing reads them, so that every table of the stream rejects the same rows.
    require(EvaluateAll(scope.exprs.filterNot(e => e.isInstanceOf[Attribute] || e.foldable)))
  }

  /** Rejects rows with an event time before `until`, in microseconds: the table has them from elsewhere. */
  def afterInitialRows(until: Long): Unit = require(AfterInitialRows(eventTime, until))

  private def require(conditions: Expression*): Unit =
    declared = declared.copy(conditions = declared.conditions ++ conditions)

  // Keys

  def key(name: String, column: Column): Unit = {
    // All keys are computed from the columns as they were before the first key.
    val before = if (declared.keys.isEmpty) declared.scope else declared.streamScope
    // Keys are compared by their bytes, and 0.0 and -0.0 have different ones.
    val e = NormalizeFloatingNumbers.normalize(before.select(Seq(column.as(name))).exprs.head)
    StorableTypes.requireGroupable(name, e.dataType)
    declared = declared.copy(
      scope = declared.scope.withColumn(name, e), streamScope = before, keys = declared.keys :+ name)
  }

  /** Rejects rows without a key here, for operators that are not the kernel's. */
  def requireKeys(): Unit = {
    val scope = declared.scope
    require(declared.keyColumns.map(k => ValidKey(scope.inSource(k), k.name)): _*)
  }

  // Columns

  def aggregate(name: String, column: Column): Unit = {
    val fold = SparkAggregates(declared.scope, declared.keys, Seq(name -> column))
    StorableTypes.require(fold.schema)
    add(AggregateColumn(name, column))
  }

  /** A fold of the user's own; `merge` and `retract` may be null. */
  def fold(
      name: String,
      fields: java.util.List[String],
      zero: java.util.List[Column],
      update: java.util.List[Column],
      merge: java.util.List[Column],
      retract: java.util.List[Column],
      result: Column): Unit = {
    def optional(parts: java.util.List[Column]) = Option(parts).map(_.asScala.toSeq)
    val fold = UserFold(name, fields.asScala.toSeq, zero.asScala.toSeq, update.asScala.toSeq, optional(merge),
      optional(retract), result)
    val analyzed = fold.analyzed(declared.scope, declared.keyColumns, declared.weight)
    StorableTypes.require(analyzed.schema)
    add(FoldColumn(fold))
  }

  private def add(column: TableColumn): Unit = declared = declared.copy(columns = declared.columns :+ column)

  /** A column of a top-N table; without any it has all columns of the stream. */
  def selectColumn(name: String, column: Column): Unit = {
    val e = declared.scope.select(Seq(column.as(name))).exprs.head
    StorableTypes.require(e.dataType)
    declared = declared.copy(selectedColumns = declared.selectedColumns :+ (name -> e))
  }

  /** Whole rows: the first `n` by an SQL ORDER BY, or the newest if `order` is null. */
  def topN(n: Int, order: String): Unit =
    declared = declared.copy(topN = Some(TopN(n, Option(order).map(declared.scope.order).getOrElse(Nil))))

  /** Matches of a pattern, whose automaton is JSON as plan/pattern/automaton.py writes it. */
  def pattern(automaton: String): PatternDeclaration = {
    val pattern = new PatternDeclaration(
      declared.scope, declared.keyColumns, declared.time.isDefined, Automaton.parse(automaton))
    declared = declared.copy(pattern = Some(pattern))
    pattern
  }

  /** Keys expire when they have had no row for so long. */
  def expireAfter(ms: Long): Unit = declared = declared.copy(ttlMs = Some(ms))

  /** Each change carries the row before it. */
  def emitPreviousRows(): Unit = declared = declared.copy(emitsPreviousRow = true)

  /** Every row is folded, and its change emitted, as soon as it is read: no step waits for further rows. */
  def rowByRow(): Unit = declared = declared.copy(rowByRow = true)

  // Windows

  /** Tumbling and sliding windows; `zone` may be null. */
  def timeWindow(size: Long, every: Long, offset: Long, zone: String): Unit = {
    TableDeclaration.requireZone(zone)
    val grid = WindowGrid(size * 1000, every * 1000, offset * 1000, Option(zone))
    window(TimeWindow(grid, eventTime))
  }

  def sessionWindow(gap: Long): Unit = window(SessionWindow(ConstantGap(gap * 1000), eventTime))

  /** Sessions where each row has its own gap, an interval or a text that reads as one. */
  def sessionWindowBy(gap: Column): Unit = {
    val time = eventTime
    window(SessionWindow(GapPerRow(declared.scope.select(Seq(gap.as("gap"))).exprs.head), time))
  }

  /** The last `span`, or the last `rows` rows; with `pane`, the span moves in steps of that length. */
  def rollingWindow(span: java.lang.Long, rows: java.lang.Integer, pane: java.lang.Long): Unit = {
    val time = if (span == null) declared.time else Some(eventTime)
    window(RollingWindow(micros(span), Option(rows).map(_.toInt), micros(pane), time))
  }

  /** Whether open windows emit their changes, and how long closed ones stay open to replays. */
  def windowEmission(changes: Boolean, keep: java.lang.Long): Unit = declared.window match {
    case Some(closing: ClosingWindow) => window(closing.emitting(WindowEmission(changes, micros(keep))))
    case other => throw new IllegalStateException(s"no window that closes: $other")
  }

  private def micros(ms: java.lang.Long): Option[Long] = Option(ms).map(_ * 1000)

  private def window(kind: WindowKind): Unit = declared = declared.copy(window = Some(kind))

  private def eventTime: Attribute = declared.time.getOrElse(throw new RefusedException(
    "windows need an event time, and the stream has none here: a transform left it out, " +
      "or a stream of the union has none"))

  // Dedup, whose columns are the key of a step

  /**
   * The stream without duplicates by these columns. `keepDuplicates`: they are side outputs, else they are
   * counted.
   */
  def dedup(
      columns: java.util.List[String],
      withinMs: Long,
      keepDuplicates: Boolean,
      label: String): DataFrame = {
    columns.asScala.foreach(name => key(name, col(s"`$name`")))
    frame(new StreamPlanner(declared).dedup(sourcePlan, withinMs * 1000, keepDuplicates, label))
  }
}

object TableDeclaration {
  private def requireZone(zone: String): Unit = try Option(zone).foreach(java.time.ZoneId.of) catch {
    case NonFatal(_) => throw new RefusedException(
      s"this Java knows no time zone $zone; take one that it knows, or a newer Java")
  }
}
