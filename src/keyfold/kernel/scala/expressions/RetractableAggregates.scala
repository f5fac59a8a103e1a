package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

/**
 * Aggregates over rows with a weight, 1 for a row and -1 for its retraction, as sums in which the two cancel
 * out: count, sum and avg, with FILTER. They merge like any other sum, so nothing else need know.
 */
object RetractableAggregates {
  /** The expression with such aggregates; throws `RefusedException` for one that has no inverse. */
  def apply(e: Expression, weight: Expression): Expression = new RetractableAggregates(weight).rewritten(e)

  def can(e: Expression): Boolean =
    try { apply(e, Literal(1)); true } catch { case _: RefusedException => false }

  /**
   * A value in a type in which the least number has an opposite too, and whose sum overflows for no row: a
   * sum that overflowed could not be told from one without the row.
   */
  private def widened(x: Expression): Expression = x.dataType match {
    case ByteType | ShortType | IntegerType => Cast(x, LongType)
    case LongType => Cast(x, DecimalType.LongDecimal)
    case FloatType => Cast(x, DoubleType)
    case _ => x
  }
}

private class RetractableAggregates(weight: Expression) {
  import RetractableAggregates.widened

  def rewritten(e: Expression): Expression = e.transformUp {
    case AggregateExpression(Count(arguments), _, false, filter, _) =>
      val known = arguments.filter(_.nullable).map(IsNotNull(_): Expression).reduceOption(And(_, _))
      count(known.getOrElse(Literal(true)), filter)
    case AggregateExpression(s: Sum, _, false, filter, _) =>
      val all = total(widened(s.child), filter)
      val isLong = s.child.dataType == LongType
      ifAny(s.child, filter)(if (isLong) Cast(all, LongType, None, s.evalContext.evalMode) else all)
    case AggregateExpression(a: Average, _, false, filter, _) if !a.dataType.isInstanceOf[AnsiIntervalType] =>
      // Whole numbers are summed as such: in a sum of doubles a large one would leave a trace.
      val all = total(widened(a.child), filter)
      val n = count(IsNotNull(a.child), filter)
      ifAny(a.child, filter) {
        if (a.dataType == DoubleType) Divide(Cast(all, DoubleType), Cast(n, DoubleType))
        else Cast(Divide(all, Cast(n, DecimalType.LongDecimal)), a.dataType)
      }
    case x: AggregateExpression =>
      throw new RefusedException(s"${x.aggregateFunction.prettyName} can't be retracted")
  }

  private def sum(of: Expression, filter: Option[Expression]): Expression =
    AggregateExpression(Sum(of), Complete, isDistinct = false, filter)

  private def count(known: Expression, filter: Option[Expression]): Expression =
    Coalesce(Seq(sum(If(known, Cast(weight, LongType), Literal(0L)), filter), Literal(0L)))

  private def signed(x: Expression): Expression = If(LessThan(weight, Literal(0)), UnaryMinus(x), x)

  private def isPositive(n: Expression): Expression = GreaterThan(n, Literal(0L))

  /** The value if rows are left in which `x` is not null. */
  private def ifAny(x: Expression, filter: Option[Expression])(value: Expression): Expression =
    If(isPositive(count(IsNotNull(x), filter)), value, Literal(null, value.dataType))

  /** NaN and infinities would stay in a sum for good, so they are counted instead. */
  private def total(x: Expression, filter: Option[Expression]): Expression =
    if (x.dataType != DoubleType) sum(signed(x), filter)
    else {
      def any(test: Expression) = isPositive(count(test, filter))
      val positive = any(EqualTo(x, Literal(Double.PositiveInfinity)))
      val negative = any(EqualTo(x, Literal(Double.NegativeInfinity)))
      val isFinite = LessThanOrEqual(Abs(x), Literal(Double.MaxValue))
      CaseWhen(
        Seq(
          Or(any(IsNaN(x)), And(positive, negative)) -> Literal(Double.NaN),
          positive -> Literal(Double.PositiveInfinity),
          negative -> Literal(Double.NegativeInfinity)),
        Some(sum(signed(If(isFinite, x, Literal(0.0))), filter)))
    }
}
