package org.apache.spark.sql.keyfold.api

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnScope, EvaluateAll, Fingerprint}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.expressions.{RetractableAggregates, SparkAggregates, UserFold}
import org.apache.spark.sql.keyfold.pattern.PatternDeclaration
import org.apache.spark.sql.keyfold.rows.admission.RowGate
import org.apache.spark.sql.keyfold.rows.parsing.RowOrigin
import org.apache.spark.sql.keyfold.rows.side_output.SideOutputSettings
import org.apache.spark.sql.keyfold.state.TopN
import org.apache.spark.sql.keyfold.window.WindowKind

/** An aggregated column of a table. */
sealed trait TableColumn {
  def name: String
  def fingerprint(of: Fingerprint, keys: Seq[String]): String
}

case class AggregateColumn(name: String, aggregate: Column) extends TableColumn {
  override def fingerprint(of: Fingerprint, keys: Seq[String]): String = of.aggregate(name, aggregate, keys)
}

case class FoldColumn(fold: UserFold) extends TableColumn {
  override def name: String = fold.column
  override def fingerprint(of: Fingerprint, keys: Seq[String]): String = of.fold(fold, keys)
}

/**
 * Where rows come from, and what happens to a row that can't be used: with `keepRejected` it is a side
 * output.
 */
case class InputSettings(keepRejected: Boolean, zone: String, origin: RowOrigin, maxRejected: Int) {
  def sideOutput: SideOutputSettings = SideOutputSettings(keepRejected, zone, origin.stream)
}

/**
 * A table, or a step of a stream, as declared so far: every expression is analyzed, nothing is planned.
 * `scope` has the columns of a row, key columns among them; `streamScope` has them as they were before the
 * first key. `ttlMs`: how long a key lives after its newest row. `rowByRow`: no step may wait for further
 * rows.
 */
case class Declaration(
    input: InputSettings,
    scope: ColumnScope,
    streamScope: ColumnScope,
    conditions: Vector[Expression] = Vector.empty,
    keys: Vector[String] = Vector.empty,
    columns: Vector[TableColumn] = Vector.empty,
    selectedColumns: Vector[(String, Expression)] = Vector.empty,
    window: Option[WindowKind] = None,
    topN: Option[TopN] = None,
    pattern: Option[PatternDeclaration] = None,
    ttlMs: Option[Long] = None,
    emitsPreviousRow: Boolean = false,
    rowByRow: Boolean = false) {

  def source: Seq[Attribute] = scope.source
  def time: Option[Attribute] = source.find(_.name == InternalColumns.Time)
  /** 1 for a row, -1 for its retraction; None where rows are never retracted. */
  def weight: Option[Attribute] = source.find(_.name == InternalColumns.Weight)

  /** Which upstream row a row comes from; None where no row comes from a table's changelog. */
  def rowId: Option[Attribute] = source.find(_.name == InternalColumns.RowId)

  /** Whether rows are messages of Kafka. */
  def readsMessages: Boolean = source.exists(_.name == InternalColumns.Message)

  def keyColumns: Seq[Attribute] = keys.map(k => scope.seen.find(_.name.equalsIgnoreCase(k)).get)
  /** The key over the source's columns. */
  def keyExpressions: Seq[Alias] = keyColumns.map(k => Alias(scope.inSource(k), k.name)())
  /** The key's columns behind the shuffle. */
  def shuffledKeys: Seq[Attribute] = keyColumns.map(k => AttributeReference(k.name, k.dataType)())

  /** What every row must pass before anything else, where only the columns `read` of the source are read. */
  def gate(read: Seq[Attribute] = source): RowGate = {
    val tests = conditions.filterNot { case EvaluateAll(none) => none.isEmpty; case _ => false }
    RowGate(read, tests, input.keepRejected, input.zone, input.origin, input.maxRejected)
  }

  /**
   * The columns of a table that shows rows: the selected ones, else all but the key and a change's operation.
   */
  lazy val shownColumns: Seq[(String, Expression)] =
    if (selectedColumns.nonEmpty) selectedColumns
    else scope.seen.zip(scope.exprs).collect {
      case (a, e) if a.name != InternalColumns.Op && !keys.exists(_.equalsIgnoreCase(a.name)) => a.name -> e
    }

  /**
   * The table's columns as one fold, in the order of declaration; aggregates share buffers where they can.
   */
  lazy val columnFold: AggregateFold =
    if (pattern.isDefined) pattern.get.fold
    else if (topN.isDefined) AggregateFold.newest(shownColumns, time).copy(keys = keyColumns)
    else aggregateFold

  private def aggregateFold: AggregateFold = {
    val retraction = weight.filterNot(_ => recomputesAggregates)
    val aggregates = columns.collect { case AggregateColumn(name, aggregate) => name -> aggregate }
    val shared =
      if (aggregates.isEmpty) None else Some(SparkAggregates(scope, keys, aggregates, retraction))
    val own = columns.collect {
      case FoldColumn(fold) => fold.analyzed(scope, keyColumns, retraction)
    }
    val all = (shared ++ own).reduce(_ ++ _).withDistinctNames.copy(keys = keyColumns)
    all.copy(result = columns.map(c => all.result.find(_.name == c.name).get))
  }

  /** The columns' fold with the state that windows, TTL and retractions keep beside them. */
  def stateFold: AggregateFold = foldBeside(ttlMs.map(_ => AggregateFold.seen(time)))

  private def foldBeside(lastSeen: Option[AggregateFold]): AggregateFold = {
    val rowsLeft = weight.filterNot(_ => recomputesAggregates || topN.isDefined).map(AggregateFold.left)
    val all = window.fold((lastSeen ++ rowsLeft).foldLeft(columnFold)(_ ++ _))(_.extend(columnFold))
    all.copy(previous = emitsPreviousRow)
  }

  /**
   * Whether rows may be retracted from an aggregate that has no inverse: it is recomputed from retained rows.
   */
  lazy val recomputesAggregates: Boolean = weight.isDefined && columns.exists {
    case AggregateColumn(_, aggregate) =>
      val analyzed = ColumnScope.aggregate(scope, keys, Seq("x" -> aggregate)).aggregateExpressions
      !analyzed.forall(RetractableAggregates.can)
    case _: FoldColumn => false
  }

  /**
   * Whether a top-N table retains rows. One that shows the newest row, and retracts none, has that row as its
   * fold.
   */
  def ranksRetainedRows: Boolean = topN.exists(t => weight.isDefined || t.orders.nonEmpty)

  /** Whether retained rows are retracted, by their ids where they have one. */
  def retractsRetainedRows: Boolean = weight.isDefined && (recomputesAggregates || ranksRetainedRows)

  /** Whether a key's rows are folded one by one and in order, so that they can't be pre-aggregated. */
  def foldsInOrder: Boolean =
    topN.isDefined || columns.exists(_.isInstanceOf[FoldColumn]) || window.exists(_.panes.isEmpty)

  /** Whether a window closes, or a key expires, when time passes. */
  def waitsForTime: Boolean = ttlMs.isDefined || window.exists(_.closes)

  /** The source's own columns that the table reads. */
  def columnsRead: Seq[Attribute] = {
    val read = pattern match {
      case Some(p) => AttributeSet(conditions ++ keyColumns.map(scope.inSource) ++ p.reads)
      case None =>
        val orders = topN.toSeq.flatMap(_.orders).map(o => scope.inSource(o.child))
        val folded = foldBeside(lastSeen = None).reading(source)(scope.inSource).references
        AttributeSet(conditions ++ keyColumns.map(scope.inSource) ++ orders) ++ folded
    }
    source.filter(a => read.contains(a) && !InternalColumns.hidden(a.name))
  }
}
