package org.apache.spark.sql.keyfold.join

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.keyfold.expressions.InternalColumns

/** One side of a join: the user's columns, the event time and the side output, which it has in any order. */
case class JoinSideLayout(plan: LogicalPlan) {
  val columns: Seq[Attribute] = plan.output.filterNot(a => InternalColumns.hidden(a.name))
  val time: Attribute = named(InternalColumns.Time)
  val sideOutput: Attribute = named(InternalColumns.SideOutput)
  private def named(column: String): Attribute = plan.output.find(_.name == column).get

  /** The side with those columns alone that are needed, and its side output. */
  def only(needed: Attribute => Boolean): LogicalPlan =
    Project(plan.output.filter(a => needed(a) || a.exprId == sideOutput.exprId), plan)
}
