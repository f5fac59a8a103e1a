package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

/**
 * Aggregates over rows that have a weight, 1 for one that comes and -1 for one that is taken back, as sums
 * in which a row and the same row taken back cancel out: count, sum and avg, with FILTER. They merge like
 * any other sum, so that nothing else need know.
 */
object RetractableAggregates {
  /** The expression with its aggregates so; throws `RefusedException` for one that can't be. */
  def apply(e: Expression, weight: Expression): Expression = {
    def sum(of: Expression, filter: Option[Expression]) = AggregateExpression(Sum(of), Complete, isDistinct = false, filter)
    def count(known: Expression, filter: Option[Expression]) =
      Coalesce(Seq(sum(If(known, Cast(weight, LongType), Literal(0L)), filter), Literal(0L)))
    def signed(x: Expression) = If(LessThan(weight, Literal(0)), UnaryMinus(x), x)
    def more(n: Expression) = GreaterThan(n, Literal(0L))
    def some(x: Expression, filter: Option[Expression])(value: Expression) =
      If(more(count(IsNotNull(x), filter)), value, Literal(null, value.dataType))
    // What is no number, or endless, would stay in a sum for good: such are counted.
    def total(x: Expression, filter: Option[Expression]) = if (x.dataType != DoubleType) sum(signed(x), filter) else {
      def each(test: Expression) = more(count(test, filter))
      val (up, down) = (each(EqualTo(x, Literal(Double.PositiveInfinity))), each(EqualTo(x, Literal(Double.NegativeInfinity))))
      val finite = LessThanOrEqual(Abs(x), Literal(Double.MaxValue))
      CaseWhen(Seq(Or(each(IsNaN(x)), And(up, down)) -> Literal(Double.NaN), up -> Literal(Double.PositiveInfinity), down -> Literal(Double.NegativeInfinity)),
        Some(sum(signed(If(finite, x, Literal(0.0))), filter)))
    }
    e.transformUp {
      case AggregateExpression(Count(given), _, false, filter, _) =>
        count(given.filter(_.nullable).map(IsNotNull(_): Expression).reduceOption(And(_, _)).getOrElse(Literal(true)), filter)
      case AggregateExpression(s: Sum, _, false, filter, _) => 
        val all = total(wide(s.child), filter)
        some(s.child, filter)(if (s.child.dataType == LongType) Cast(all, LongType, None, s.evalContext.evalMode) else all)
      case AggregateExpression(a: Average, _, false, filter, _) if !a.dataType.isInstanceOf[AnsiIntervalType] =>
        // Of whole numbers, not of doubles, in which a large one would leave a trace.
        val whole = total(wide(a.child), filter)
        val n = count(IsNotNull(a.child), filter)
        some(a.child, filter)(if (a.dataType == DoubleType) Divide(Cast(whole, DoubleType), Cast(n, DoubleType)) else Cast(Divide(whole, Cast(n, DecimalType.LongDecimal)), a.dataType))
      case x: AggregateExpression => throw new RefusedException(s"${x.aggregateFunction.prettyName} can't give back a row")
    }
  }

  /**
   * Of a type in which the least number has an opposite too, and whose sum overflows for no row: the sum
   * without that row could not be told from one with it.
   */
  private def wide(x: Expression): Expression = x.dataType match {
    case ByteType | ShortType | IntegerType => Cast(x, LongType)
    case LongType => Cast(x, DecimalType.LongDecimal)
    case FloatType => Cast(x, DoubleType)
    case _ => x
  }

  def can(e: Expression): Boolean = try { apply(e, Literal(1)); true } catch { case _: RefusedException => false }
}
