package org.apache.spark.sql.keyfold.join

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.{Join, JoinHint, LocalRelation, Project, SubqueryAlias}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.{Dataset, ExpressionUtils, SparkSession}
import org.apache.spark.sql.keyfold.expressions.{ColumnScope, InternalColumns, RefusedException}
import org.apache.spark.sql.keyfold.physical.KernelStrategy
import org.apache.spark.sql.keyfold.rows.SideOutput
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Row}

/**
 * A join of two streams, on Spark's own operator: what Python calls. The condition is analyzed on the columns that a user sees, before the sides are built, so that
 * they can first compute what it asks of them.
 */
class StreamJoin(left: DataFrame, right: DataFrame, leftName: String, rightName: String) {
  private val spark = left.sparkSession.asInstanceOf[SparkSession]
  private val sides = Seq(left, right).map(f => LocalRelation(f.asInstanceOf[Dataset[Row]].logicalPlan.output.filterNot(a => InternalColumns.hidden(a.name))))
  // A stream joined with itself has two sides of one name.
  private val names = if (leftName.equalsIgnoreCase(rightName)) Seq("left", "right") else Seq(leftName, rightName)
  private var condition: Expression = _
  private var on: Seq[String] = Nil

  /** Equal columns: those of `columns` that both sides have. */
  def by(columns: java.util.List[String]): Unit = {
    on = columns.asScala.toSeq
    val same = on.map { name => val Seq(l, r) = sides.map(side => find(side.output, name)); EqualTo(l, r): Expression }
    condition = checked(same.reduce(And(_, _)))
  }

  /** A condition over `<stream>.<column>`, or `left.<column>` and `right.<column>`. */
  def where(c: Column): Unit = {
    val spelt = spark.converter(c.node).transform {
      case a: UnresolvedAttribute if a.nameParts.length > 1 && !names.exists(_.equalsIgnoreCase(a.nameParts.head)) =>
        val at = Seq("left", "right").indexWhere(_.equalsIgnoreCase(a.nameParts.head))
        if (at < 0) a else UnresolvedAttribute(names(at) +: a.nameParts.tail)
    }
    val Seq(l, r) = names.zip(sides).map { case (name, side) => SubqueryAlias(name, side) }
    condition = Dataset.ofRows(spark, Join(l, r, Inner, Some(spelt), JoinHint.NONE)).queryExecution.analyzed match {
      case j: Join => checked(ColumnScope.ready(j, spark).asInstanceOf[Join].condition.get)
      case other => throw new RefusedException(s"not a condition on two rows: ${other.nodeName}")
    }
  }

  private def find(columns: Seq[Attribute], name: String): Attribute = columns.find(_.name.equalsIgnoreCase(name)).get

  private def checked(e: Expression): Expression = {
    val keys = Join(sides.head, sides(1), Inner, Some(e), JoinHint.NONE) match {
      case ExtractEquiJoinKeys(_, l, r, _, _, _, _, _) => l.zip(r)
      case _ => throw new RefusedException(s"nothing that is equal on both sides, which is what rows are found by; add to it, as in ${names.head}.x = ${names(1)}.y")
    }
    keys.foreach { case (l, r) => alike(l, r) }
    e
  }

  private def alike(l: Expression, r: Expression): Unit = {
    // What Spark has cast by itself to compare it.
    val Seq(a, b) = Seq(l, r).map { case c: Cast if c.getTagValue(Cast.USER_SPECIFIED_CAST).isEmpty => c.child; case other => other }
    if (!DataType.equalsIgnoreNullability(a.dataType, b.dataType))
      throw new RefusedException(s"${told(a)} is ${a.dataType.sql} and ${told(b)} is ${b.dataType.sql}: what is compared must be of one type; cast one of them")
    if (!UnsafeRowUtils.isBinaryStable(a.dataType)) throw new RefusedException(s"${told(a)} has a collation (${a.dataType.sql}), under which equal texts have other bytes; compare lower(...) or another plain text")
  }

  /** What the condition means, however it was spelt. */
  def meaning: String = told(condition)

  private def told(e: Expression): String = e.transform { case a: Attribute => UnresolvedAttribute(Seq(names(sideOf(a)), a.name)) }.sql.replace("`", "")
  private def sideOf(a: Attribute): Int = sides.indexWhere(_.outputSet.contains(a))

  /** What the condition computes of one side alone (0 or 1): where that fails, the row is at fault, and not the pair. */
  def computes(side: Int): Array[Column] = {
    def own(e: Expression): Seq[Expression] =
      if (e.isInstanceOf[Attribute] || e.foldable) Nil
      else if (e.references.subsetOf(sides(side).outputSet) && e.deterministic) Seq(e) else e.children.flatMap(own)
    own(condition).map(e => ExpressionUtils.column(e.transform { case a: Attribute => UnresolvedAttribute.quoted(a.name) })).toArray
  }

  /**
   * The joined stream, of sides as stages hand them out. `leftNames` and `rightNames`: how their columns are called in it, in order; null for one that is not in it. A
   * row of the right is near if it is at most `before` milliseconds older, and `after` newer.
   */
  def joined(leftRows: DataFrame, rightRows: DataFrame, before: Long, after: Long, how: String, leftNames: java.util.List[String], rightNames: java.util.List[String]): DataFrame = {
    KernelStrategy.install(spark)
    JoinStrategy.install(spark)
    val plans = Seq(leftRows, rightRows).map(_.asInstanceOf[Dataset[Row]].logicalPlan)
    val seen = plans.map(_.output.filterNot(a => InternalColumns.hidden(a.name)))
    val Seq(leftTime, rightTime) = plans.map(_.output.find(_.name == InternalColumns.Time).get)
    val same = condition.transform { case a: Attribute => val i = sideOf(a); seen(i)(sides(i).output.indexWhere(_.exprId == a.exprId)) }
    def moved(ms: Long) = TimestampAddInterval(leftTime, Literal(ms * 1000, DayTimeIntervalType()), Some("UTC"))
    val near = And(GreaterThanOrEqual(rightTime, moved(-before)), LessThanOrEqual(rightTime, moved(after)))
    // In a full outer join Spark finds a null by a null; here a row without a key meets none, and needn't wait to come alone.
    val keyed = StreamJoin.conjuncts(same).collect { case EqualTo(l, r) => Seq(IsNotNull(l), IsNotNull(r)) }.flatten
    val id = NamedExpression.newExprId.id
    val alone = how == "left_semi" || how == "left_anti"
    val needed = same.references + rightTime
    val other = if (alone) Project(plans(1).output.filter(a => needed.contains(a) || a.name == InternalColumns.SideOutput), plans(1)) else plans(1)
    val join = Join(DivertRejects(id, Nil, 0, plans.head), DivertRejects(id, Nil, 0, other), StreamJoin.Kinds(how), Some((keyed :+ near).foldLeft(same)(And(_, _))), JoinHint.NONE)
    val shown = columns(seen, how, Seq(leftNames, if (alone) seen(1).map(_ => null: String).asJava else rightNames))
    val time = if (alone) leftTime else Greatest(Seq(leftTime, rightTime))
    val test = if (how == "left_anti") Some(IsNull(rightTime)) else None
    val own = Seq(AttributeReference(InternalColumns.Time, TimestampType, nullable = true, leftTime.metadata)(), SideOutput.attribute())
    Dataset.ofRows(spark, RestoreRejects(id, shown.map(_._2) :+ time, test, shown.map { case (name, e) => AttributeReference(name, e.dataType)() } ++ own, join))
  }

  private def columns(seen: Seq[Seq[Attribute]], how: String, called: Seq[java.util.List[String]]): Seq[(String, Expression)] =
    for (side <- Seq(0, 1); (a, name) <- seen(side).zip(called(side).asScala) if name != null) yield {
      val key = side == 0 && on.exists(_.equalsIgnoreCase(a.name))
      lazy val other = find(seen(1), a.name)
      val value = how match { case "right" if key => other; case "full" if key => Coalesce(Seq(a, other)); case _ => a }
      name -> value
    }
}

object StreamJoin extends PredicateHelper {
  private def conjuncts(e: Expression): Seq[Expression] = splitConjunctivePredicates(e)
  val Kinds: Map[String, JoinType] =
    Map("inner" -> Inner, "left" -> LeftOuter, "right" -> RightOuter, "full" -> FullOuter, "left_semi" -> LeftSemi, "left_anti" -> LeftOuter)
}
