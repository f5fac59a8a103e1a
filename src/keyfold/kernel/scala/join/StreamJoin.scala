package org.apache.spark.sql.keyfold.join

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.{Join, JoinHint, LocalRelation, LogicalPlan}
import org.apache.spark.sql.keyfold.expressions.InternalColumns
import org.apache.spark.sql.keyfold.physical.KernelStrategy
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

/**
 * A join of two streams, on Spark's own operator; called from Python. The condition is analyzed before the
 * sides are planned, so that a side can evaluate what the condition computes from it alone, and reject rows
 * on which that fails.
 */
class StreamJoin(left: DataFrame, right: DataFrame, leftName: String, rightName: String) {
  private val spark = SparkDatasets.session(left)
  private val sides = Seq(left, right).map { frame =>
    LocalRelation(StreamJoin.plan(frame).output.filterNot(a => InternalColumns.hidden(a.name)))
  }
  // The two sides of a self-join have one name.
  private val names =
    if (leftName.equalsIgnoreCase(rightName)) Seq("left", "right") else Seq(leftName, rightName)
  private var condition: JoinCondition = _
  /** The columns of `by`, which the joined stream has once. */
  private var on: Seq[String] = Nil

  /** Joins rows with equal `columns`, which both sides have. */
  def by(columns: java.util.List[String]): Unit = {
    on = columns.asScala.toSeq
    condition = JoinCondition.equalColumns(names, sides, on)
  }

  /** Joins rows by a condition over `<stream>.<column>`, or `left.<column>` and `right.<column>`. */
  def where(c: Column): Unit = condition = JoinCondition.analyzed(spark, names, sides, c)

  def meaning: String = condition.text

  /** What the condition computes from one side alone (0 or 1). If that fails, the row is rejected. */
  def computes(side: Int): Array[Column] = condition.computedFrom(side).toArray

  /**
   * The joined stream. `leftNames` and `rightNames` are the names of the sides' columns in it, null for one
   * that is left out. A right row is joined if its time is at most `before` milliseconds before that of the
   * left row, and at most `after` milliseconds after it.
   */
  def joined(
      leftRows: DataFrame,
      rightRows: DataFrame,
      before: Long,
      after: Long,
      how: String,
      leftNames: java.util.List[String],
      rightNames: java.util.List[String]): DataFrame = {
    KernelStrategy.install(spark)
    JoinStrategy.install(spark)
    val layouts = Seq(leftRows, rightRows).map(frame => JoinSideLayout(StreamJoin.plan(frame)))
    val leftOnly = how == "left_semi" || how == "left_anti"
    val id = NamedExpression.newExprId.id
    val join = plannedJoin(id, layouts, near(layouts, before, after), how, leftOnly)
    val outputNames = Seq(leftNames.asScala.toSeq, if (leftOnly) Nil else rightNames.asScala.toSeq)
    val columns = outputColumns(layouts, how, outputNames)
    val Seq(leftTime, rightTime) = layouts.map(_.time)
    val time = if (leftOnly) leftTime else Greatest(Seq(leftTime, rightTime))
    // An anti join is a left outer join of which the rows without a partner are kept.
    val filter = if (how == "left_anti") Some(IsNull(rightTime)) else None
    val output = columns.map { case (name, e) => AttributeReference(name, e.dataType)() } :+
      AttributeReference(InternalColumns.Time, TimestampType, nullable = true, leftTime.metadata)() :+
      SideOutput.attribute()
    SparkDatasets.frame(spark, RestoreRejects(id, columns.map(_._2) :+ time, filter, output, join))
  }

  private def near(layouts: Seq[JoinSideLayout], before: Long, after: Long): Expression = {
    val Seq(leftTime, rightTime) = layouts.map(_.time)
    def shifted(ms: Long) =
      TimestampAddInterval(leftTime, Literal(ms * 1000, DayTimeIntervalType()), Some("UTC"))
    And(GreaterThanOrEqual(rightTime, shifted(-before)), LessThanOrEqual(rightTime, shifted(after)))
  }

  private def plannedJoin(
      id: Long,
      layouts: Seq[JoinSideLayout],
      near: Expression,
      how: String,
      leftOnly: Boolean): Join = {
    val Seq(left, right) = layouts
    val equal = condition.over(layouts.map(_.columns))
    // Spark's full outer join would match null with null; and a row without a key need not wait for another.
    val keys = StreamJoin.conjuncts(equal).collect { case EqualTo(l, r) => Seq(l, r) }.flatten
    val whole = (keys.map(IsNotNull(_)) :+ near).foldLeft(equal)(And(_, _))
    // Of the right side, the state then has only what the condition reads.
    val needed = equal.references + right.time
    val rightPlan = if (leftOnly) right.only(needed.contains) else right.plan
    Join(DivertRejects(id, Nil, 0, left.plan), DivertRejects(id, Nil, 0, rightPlan), StreamJoin.Kinds(how),
      Some(whole), JoinHint.NONE)
  }

  private def outputColumns(
      layouts: Seq[JoinSideLayout],
      how: String,
      outputNames: Seq[Seq[String]]): Seq[(String, Expression)] =
    for (side <- Seq(0, 1); (a, name) <- layouts(side).columns.zip(outputNames(side)) if name != null) yield {
      val isKey = side == 0 && on.exists(_.equalsIgnoreCase(a.name))
      lazy val rightKey = JoinCondition.find(layouts(1).columns, a.name)
      val value = how match {
        case "right" if isKey => rightKey
        case "full" if isKey => Coalesce(Seq(a, rightKey))
        case _ => a
      }
      name -> value
    }
}

object StreamJoin extends PredicateHelper {
  private val Kinds: Map[String, JoinType] = Map("inner" -> Inner, "left" -> LeftOuter, "right" -> RightOuter,
    "full" -> FullOuter, "left_semi" -> LeftSemi, "left_anti" -> LeftOuter)
  private def conjuncts(e: Expression): Seq[Expression] = splitConjunctivePredicates(e)
  private def plan(frame: DataFrame): LogicalPlan = SparkDatasets.plan(frame)
}
