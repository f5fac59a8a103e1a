package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.UserPredicate
import org.apache.spark.sql.types._

/**
 * The conditions of a pattern that depend on earlier rows of the match (`dependent`, by number), and the
 * columns that they read: those of the row, of which `stored` are kept in state, and those of the match so
 * far: the rows of each step, its last row and its first.
 */
case class MatchConditions(
    dependent: Map[Int, Expression],
    row: Seq[Attribute],
    stored: Seq[Attribute],
    steps: Seq[Attribute],
    last: Attribute,
    first: Attribute) {
  /** The schema of a matched row in state. */
  def storedRow: StructType = StructType(row.map { a =>
    StructField(a.name, if (stored.contains(a)) a.dataType else PatternDeclaration.Unread)
  })
  def matchColumns: Seq[Attribute] = steps ++ Seq(last, first)
}

/** Computes the columns `MatchConditions.matchColumns` of a match; those that are not in `used` stay null. */
class MatchColumns(conditions: MatchConditions, automaton: Automaton, used: Set[ExprId]) {
  private val stepCount = conditions.steps.length
  private val (lastColumn, firstColumn) = (stepCount, stepCount + 1)
  private val isUsed = conditions.matchColumns.map(a => used(a.exprId)).toArray
  private val anyStepUsed = (0 until stepCount).exists(isUsed(_))
  private val columns = new GenericInternalRow(stepCount + 2)

  /** The columns of the match with this last node, below zero for an empty one; valid until the next call. */
  def apply(matched: MatchedRows, lastNode: Int): InternalRow = {
    if (anyStepUsed) fillSteps(matched, lastNode)
    columns.update(lastColumn, if (lastNode < 0) null else matched.rows(matched.row(lastNode)))
    if (isUsed(firstColumn)) columns.update(firstColumn,
      if (lastNode < 0) null else matched.rows(matched.row(matched.first(lastNode))))
    columns
  }

  private def fillSteps(matched: MatchedRows, lastNode: Int): Unit = {
    val path = if (lastNode < 0) Array.empty[Int] else matched.path(lastNode)
    var step = 0
    while (step < stepCount) {
      if (isUsed(step)) {
        val nodes = path.filter(node => automaton.positions(matched.position(node)) == step)
        columns.update(step, new GenericArrayData(nodes.map(node => matched.rows(matched.row(node)): Any)))
      }
      step += 1
    }
  }
}

/** Evaluates the conditions that depend on earlier rows of the match, compiled once for each task. */
class MatchConditionEvaluator(conditions: MatchConditions, automaton: Automaton) extends MatchPredicate {
  private val predicates = conditions.dependent.map { case (number, e) =>
    number -> new UserPredicate(e, conditions.row ++ conditions.matchColumns)
  }
  private val columns = conditions.dependent.map { case (number, e) =>
    number -> new MatchColumns(conditions, automaton, e.references.map(_.exprId).toSet)
  }
  private val joined = new JoinedRow

  override def holds(condition: Int, row: InternalRow, matched: MatchedRows, lastNode: Int): Boolean =
    predicates(condition)(joined(row, columns(condition)(matched, lastNode)))
}
