package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical.{Join, JoinHint, LocalRelation, SubqueryAlias}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.{ColumnScope, RefusedException}
import org.apache.spark.sql.keyfold.spark.plans.{SparkDatasets, SparkStreamingJoin}
import org.apache.spark.sql.types.DataType

/** The condition of a join, analyzed against the user's columns of both sides. */
class JoinCondition(names: Seq[String], sides: Seq[LocalRelation], val expression: Expression) {
  check()

  /** Which side a column belongs to, 0 or 1. */
  def sideOf(a: Attribute): Int = sides.indexWhere(_.outputSet.contains(a))

  /** The condition over other attributes: `columns` of each side, in the same order. */
  def over(columns: Seq[Seq[Attribute]]): Expression = expression.transform { case a: Attribute =>
    val side = sideOf(a)
    columns(side)(sides(side).output.indexWhere(_.exprId == a.exprId))
  }

  /** The condition in one spelling, however it was written. */
  def text: String = text(expression)
  private def text(e: Expression): String = e.transform {
    case a: Attribute => UnresolvedAttribute(Seq(names(sideOf(a)), a.name))
  }.sql.replace("`", "")

  /** The largest expressions that the condition computes from one side alone. */
  def computedFrom(side: Int): Seq[Column] = {
    def own(e: Expression): Seq[Expression] =
      if (e.isInstanceOf[Attribute] || e.foldable) Nil
      else if (e.references.subsetOf(sides(side).outputSet) && e.deterministic) Seq(e)
      else e.children.flatMap(own)
    own(expression).map { e =>
      SparkDatasets.column(e.transform { case a: Attribute => UnresolvedAttribute.quoted(a.name) })
    }
  }

  private def check(): Unit = Join(sides.head, sides(1), Inner, Some(expression), JoinHint.NONE) match {
    case SparkStreamingJoin(join) =>
      join.leftKeys.zip(join.rightKeys).foreach { case (l, r) => checkKey(l, r) }
    case _ => throw new RefusedException("the condition needs at least one equality between the two " +
      s"streams, such as ${names.head}.x = ${names(1)}.y")
  }

  private def checkKey(left: Expression, right: Expression): Unit = {
    val (l, r) = (withoutImplicitCast(left), withoutImplicitCast(right))
    if (!DataType.equalsIgnoreNullability(l.dataType, r.dataType))
      throw new RefusedException(s"${text(l)} is ${l.dataType.sql} and ${text(r)} is ${r.dataType.sql}: " +
        "both must have the same type; cast one of them")
    if (!UnsafeRowUtils.isBinaryStable(l.dataType))
      throw new RefusedException(s"${text(l)} has a collation (${l.dataType.sql}), under which equal texts " +
        "have different bytes; compare lower(...) or another plain text")
  }
  private def withoutImplicitCast(e: Expression): Expression = e match {
    case c: Cast if c.getTagValue(Cast.USER_SPECIFIED_CAST).isEmpty => c.child
    case other => other
  }
}

object JoinCondition {
  /** Equality of the columns with these names, which both sides have. */
  def equalColumns(names: Seq[String], sides: Seq[LocalRelation], columns: Seq[String]): JoinCondition = {
    val equalities = columns.map { column =>
      val Seq(l, r) = sides.map(side => find(side.output, column))
      EqualTo(l, r): Expression
    }
    new JoinCondition(names, sides, equalities.reduce(And(_, _)))
  }

  /** A condition over `<stream>.<column>`, or `left.<column>` and `right.<column>`. */
  def analyzed(
      spark: SparkSession,
      names: Seq[String],
      sides: Seq[LocalRelation],
      c: Column): JoinCondition = {
    val condition = spark.converter(c.node).transform {
      case a: UnresolvedAttribute if isSideAlias(names, a) =>
        val side = SideAliases.indexWhere(_.equalsIgnoreCase(a.nameParts.head))
        UnresolvedAttribute(names(side) +: a.nameParts.tail)
    }
    val Seq(left, right) = names.zip(sides).map { case (name, side) => SubqueryAlias(name, side) }
    val join = Join(left, right, Inner, Some(condition), JoinHint.NONE)
    SparkDatasets.analyzed(SparkDatasets.frame(spark, join)) match {
      case j: Join =>
        new JoinCondition(names, sides, ColumnScope.ready(j, spark).asInstanceOf[Join].condition.get)
      case other => throw new RefusedException(s"not a condition on two rows: ${other.nodeName}")
    }
  }

  private val SideAliases = Seq("left", "right")
  /** Whether a column is qualified by `left` or `right`, and no stream is called so. */
  private def isSideAlias(names: Seq[String], a: UnresolvedAttribute): Boolean = a.nameParts.length > 1 &&
    SideAliases.exists(_.equalsIgnoreCase(a.nameParts.head)) &&
    !names.exists(_.equalsIgnoreCase(a.nameParts.head))

  def find(columns: Seq[Attribute], name: String): Attribute =
    columns.find(_.name.equalsIgnoreCase(name)).get
}
