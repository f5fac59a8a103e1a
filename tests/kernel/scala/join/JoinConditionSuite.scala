package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.keyfold.expressions.{InternalColumns, RefusedException}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._

/** The condition of a join, and the sides that it is applied to. */
class JoinConditionSuite extends munit.FunSuite {
  private def side(columns: (String, DataType)*): LocalRelation =
    LocalRelation(columns.map { case (n, t) => AttributeReference(n, t)() })
  private val sides =
    Seq(side("k" -> LongType, "v" -> IntegerType), side("K" -> LongType, "w" -> IntegerType))
  private val Seq(Seq(k, v), Seq(rightK, w)) = sides.map(_.output)
  private val names = Seq("orders", "payments")
  private def condition(e: Expression): JoinCondition = new JoinCondition(names, sides, e)
  private def refused(e: Expression): String = intercept[RefusedException](condition(e)).getMessage

  test("columns of one name are found whatever their case, and the text names their streams") {
    val found = JoinCondition.equalColumns(names, sides, Seq("k"))
    assertEquals(found.text, "(orders.k = payments.K)")
    assertEquals((found.sideOf(k), found.sideOf(rightK)), (0, 1))
  }

  test("the condition is the same over other attributes") {
    val others = sides.map(_.output.map(_.newInstance()))
    val moved = condition(And(EqualTo(k, rightK), GreaterThan(v, w))).over(others)
    val Seq(Seq(otherK, otherV), Seq(otherRightK, otherW)) = others
    assertEquals(moved, And(EqualTo(otherK, otherRightK), GreaterThan(otherV, otherW)): Expression)
  }

  test("a condition without an equality of both sides is refused") {
    assert(refused(GreaterThan(v, w)).contains("at least one equality"))
    assert(refused(EqualTo(k, Literal(3L))).contains("orders.x = payments.y"))
  }

  test("keys of different types are refused, also where Spark would cast one of them") {
    val implicitCast = Cast(v, LongType)
    assert(refused(EqualTo(implicitCast, rightK)).contains("orders.v is INT and payments.K is BIGINT"))
    val explicitCast = Cast(v, LongType)
    explicitCast.setTagValue(Cast.USER_SPECIFIED_CAST, ())
    assertEquals(condition(EqualTo(explicitCast, rightK)).sideOf(v), 0)
  }

  test("what the condition computes from one side alone is found, and columns and constants are not") {
    val both = condition(And(EqualTo(k, rightK), GreaterThan(Divide(Literal(1.0), v), Add(w, v))))
    assertEquals(both.computedFrom(0).length, 1)
    assertEquals(both.computedFrom(1).length, 0)
    assertEquals(condition(EqualTo(k, rightK)).computedFrom(0), Nil)
  }

  test("a side has its internal columns by name, wherever they are") {
    val time = AttributeReference(InternalColumns.Time, TimestampType)()
    val sideOutput = SideOutput.attribute()
    val layout = JoinSideLayout(LocalRelation(Seq(time, k, sideOutput, v)))
    assertEquals(layout.columns, Seq(k, v))
    assertEquals(Seq(layout.time, layout.sideOutput), Seq[Attribute](time, sideOutput))
    assertEquals(layout.only(_.exprId == v.exprId).output, Seq(sideOutput, v))
  }
}
