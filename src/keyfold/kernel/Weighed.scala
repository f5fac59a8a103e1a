package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._

/**
 * Aggregates over rows that have a weight, 1 for one that comes and -1 for one that is taken back, as sums in which a row and the same row taken back cancel out:
 * count, sum and avg, with FILTER. They merge like any other sum, so that nothing else need know.
 */
object Weighed {
  /** The expression with its aggregates so; throws `Refused` for one that can't be. */
  def apply(e: Expression, weight: Expression): Expression = {
    def sum(of: Expression, filter: Option[Expression]) = AggregateExpression(Sum(of), Complete, isDistinct = false, filter)
    def count(known: Expression, filter: Option[Expression]) =
      Coalesce(Seq(sum(If(known, Cast(weight, LongType), Literal(0L)), filter), Literal(0L)))
    def signed(x: Expression) = If(LessThan(weight, Literal(0)), UnaryMinus(x), x)
    def some(x: Expression, filter: Option[Expression])(value: Expression) =
      If(GreaterThan(count(IsNotNull(x), filter), Literal(0L)), value, Literal(null, value.dataType))
    e.transformUp {
      case AggregateExpression(Count(given), _, false, filter, _) =>
        count(given.filter(_.nullable).map(IsNotNull(_): Expression).reduceOption(And(_, _)).getOrElse(Literal(true)), filter)
      case AggregateExpression(s: Sum, _, false, filter, _) => some(s.child, filter)(sum(signed(wide(s.child)), filter))
      case AggregateExpression(a: Average, _, false, filter, _) if !a.dataType.isInstanceOf[AnsiIntervalType] =>
        val (total, n) = (sum(signed(if (a.dataType == DoubleType) Cast(a.child, DoubleType) else a.child), filter), count(IsNotNull(a.child), filter))
        val exact = if (a.dataType == DoubleType) DoubleType else DecimalType.LongDecimal
        some(a.child, filter)(Cast(Divide(total, Cast(n, exact)), a.dataType))
      case x: AggregateExpression => throw new Refused(s"${x.aggregateFunction.prettyName} can't give back a row")
    }
  }

  /** Of the type of its sum, in which the least number has an opposite too. */
  private def wide(x: Expression): Expression = x.dataType match {
    case ByteType | ShortType | IntegerType => Cast(x, LongType)
    case FloatType => Cast(x, DoubleType)
    case _ => x
  }

  def can(e: Expression): Boolean = try { apply(e, Literal(1)); true } catch { case _: Refused => false }
}
