package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.keyfold.expressions.UserPredicate
import org.apache.spark.sql.types._

/**
 * What the conditions of a pattern look at: the columns of a row (`row`; `read` are those that are known still when it has been taken), and of the
 * match so far each step's rows (`steps`), the row taken last and the first one.
 * `all` are those that a row alone does not decide, by number.
 */
case class MatchConditions(all: Map[Int, Expression], row: Seq[Attribute], read: Seq[Attribute], steps: Seq[Attribute], last: Attribute, first: Attribute) {
  def kept: StructType = StructType(row.map(a => StructField(a.name, if (read.contains(a)) a.dataType else PatternDeclaration.Unread)))
  def match_ : Seq[Attribute] = steps ++ Seq(last, first)
}

/** What a match has taken so far, as the columns `MatchConditions.match_`; those that nobody asks for are left out. */
class MatchColumns(c: MatchConditions, automaton: Automaton, asked: Set[ExprId]) {
  private val n = c.steps.length
  private val wanted = c.match_.map(a => asked(a.exprId)).toArray
  private val arrays = (0 until n).exists(wanted(_))
  val columns = new GenericInternalRow(n + 2)

  def fill(taken: TakenRows, node: Int): InternalRow = {
    if (arrays) {
      val path = if (node < 0) Array.empty[Int] else taken.path(node)
      var s = 0
      while (s < n) {
        if (wanted(s)) columns.update(s, new GenericArrayData(path.filter(p => automaton.positions(taken.position(p)) == s).map(p => taken.rows(taken.row(p)): Any)))
        s += 1
      }
    }
    columns.update(n, if (node < 0) null else taken.rows(taken.row(node)))
    if (wanted(n + 1)) columns.update(n + 1, if (node < 0) null else { var f = node; while (taken.before(f) >= 0) f = taken.before(f); taken.rows(taken.row(f)) })
    columns
  }
}

class MatchConditionEvaluator(c: MatchConditions, automaton: Automaton) extends MatchPredicate {
  private val tests = c.all.map { case (i, e) => i -> new UserPredicate(e, c.row ++ c.match_) }
  private val fills = c.all.map { case (i, e) => i -> new MatchColumns(c, automaton, e.references.map(_.exprId).toSet) }
  private val joined = new JoinedRow

  override def holds(condition: Int, row: InternalRow, taken: TakenRows, node: Int): Boolean =
    tests(condition)(joined(row, fills(condition).fill(taken, node)))
}
