package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.types._

/** Spark's aggregates as one fold: zero, update, merge and result are taken from Spark's own functions. */
object SparkAggregates {
  /** `columns`: aggregates by column name. With a weight, only those that can retract a row. */
  def apply(
      scope: ColumnScope,
      keys: Seq[String],
      columns: Seq[(String, Column)],
      weight: Option[Attribute] = None): AggregateFold = {
    val analyzed = ColumnScope.aggregate(scope, keys, columns)
    val outputs = analyzed.aggregateExpressions.drop(keys.length).map(output(_, scope, weight))
    outputs.foreach(requireAggregate)
    val buffers = new Buffers(outputs)
    AggregateFold(
      in = scope.seen,
      keys = analyzed.groupingExpressions.map(_.asInstanceOf[Attribute]),
      state = buffers.state,
      right = buffers.right,
      zero = buffers.zero,
      update = buffers.update,
      merge = Some(buffers.merge),
      result = outputs.map(buffers.result),
      coded = buffers.coded,
      origins = buffers.origins(new Fingerprint(scope)(_)))
  }

  private def output(e: Expression, scope: ColumnScope, weight: Option[Attribute]): NamedExpression = {
    val plain = distinctAsSet(ColumnScope.plain(e, scope.now))
    weight.fold(plain)(RetractableAggregates(plain, _)).asInstanceOf[NamedExpression]
  }

  private def requireAggregate(o: NamedExpression): Unit =
    if (!o.exists(_.isInstanceOf[AggregateExpression])) throw new RefusedException(
      s"${o.name} is not an aggregate: it must turn the rows of a key into one value, as max(...) does")

  /** count(distinct a, b), which Spark's streams refuse, as the size of the set of (a, b) without nulls. */
  private def distinctAsSet(e: Expression): Expression = e.transformUp {
    case AggregateExpression(Count(arguments), _, true, filter, _) =>
      val normalized = arguments.map(NormalizeFloatingNumbers.normalize)
      val known = normalized.map(a => IsNotNull(a): Expression).reduce(And(_, _))
      val element = if (normalized.length == 1) normalized.head else CreateStruct.create(normalized)
      val counted = Some(filter.fold(known)(And(_, known)))
      val set = AggregateExpression(CollectSet(element), Complete, isDistinct = false, counted)
      Cast(Size(set, legacySizeOfNull = false), LongType)
    case x: AggregateExpression if x.isDistinct => throw new RefusedException(
      s"${x.aggregateFunction.prettyName}(distinct ...) can't be kept up to date; " +
        "count(distinct ...) and collect_set(...) can")
  }

  /** The aggregates of all columns, each with its buffer; columns with the same aggregate share one. */
  private class Buffers(outputs: Seq[NamedExpression]) {
    // A shared buffer is named after the first column that uses it.
    private val parts: Vector[(String, AggregateExpression)] =
      outputs.flatMap(o => o.collect { case x: AggregateExpression => o.name -> x })
        .foldLeft(Vector.empty[(String, AggregateExpression)]) { case (all, part) =>
          if (all.exists(_._2.semanticEquals(part._2))) all else all :+ part
        }
    private val starts = parts.scanLeft(0)(_ + _._2.aggregateFunction.aggBufferAttributes.length)
    private val names = parts.flatMap { case (column, x) =>
      x.aggregateFunction.aggBufferAttributes.map { a =>
        s"${column}_${a.name}".replaceAll("\\W+", "_").stripSuffix("_")
      }
    }

    val state: Seq[AttributeReference] = fields(_.aggBufferAttributes)
    val right: Seq[AttributeReference] = fields(_.inputAggBufferAttributes)
    val zero: Seq[Expression] =
      each((_, f) => f.initialValues, _.aggBufferAttributes.map(a => Literal(null, a.dataType)))
    // Imperative functions update their own slots.
    val update: Seq[Expression] = each(filtered, _.aggBufferAttributes.map(_ => NoOp))
    val merge: Seq[Expression] = each((_, f) => f.mergeExpressions, _.aggBufferAttributes.map(_ => NoOp))
    val coded: Seq[ImperativeColumn] = parts.zip(starts).flatMap { case ((_, x), at) =>
      x.aggregateFunction match {
        case f: ImperativeAggregate =>
          Some(ImperativeColumn(f, x.filter, at, AttributeReference("result", x.dataType)()))
        case _ => None
      }
    }

    /** The aggregate and the field of its buffer; bytes also depend on the types that are aggregated. */
    def origins(meaning: Expression => String): Seq[String] = parts.flatMap { case (_, x) =>
      val types = x.aggregateFunction match {
        case f: TypedImperativeAggregate[_] => f.children.map(_.dataType.sql).mkString(" of (", ", ", ")")
        case _ => ""
      }
      x.aggregateFunction.aggBufferAttributes.map(a => s"${meaning(x)}$types ${a.name}")
    }

    def result(output: NamedExpression): NamedExpression = {
      val values = ColumnScope.unalias(output).transformUp { case x: AggregateExpression => value(x) }
      Alias(values, output.name)()
    }

    private def value(x: AggregateExpression): Expression = {
      val (part, at) = parts.zip(starts).collectFirst {
        case ((_, known), start) if known.semanticEquals(x) => (known, start)
      }.get
      part.aggregateFunction match {
        case f: DeclarativeAggregate => f.evaluateExpression
        case _ => coded.find(_.at == at).get.result
      }
    }

    private def fields(of: AggregateFunction => Seq[Attribute]): Seq[AttributeReference] =
      parts.flatMap { case (_, x) => of(x.aggregateFunction) }.zip(names).map { case (a, name) =>
        a.withName(name).withNullability(true).asInstanceOf[AttributeReference]
      }

    private def filtered(x: AggregateExpression, f: DeclarativeAggregate): Seq[Expression] =
      x.filter.fold(f.updateExpressions) { condition =>
        f.updateExpressions.zip(f.aggBufferAttributes).map { case (u, buffer) => If(condition, u, buffer) }
      }

    private def each(
        declarative: (AggregateExpression, DeclarativeAggregate) => Seq[Expression],
        imperative: ImperativeAggregate => Seq[Expression]): Seq[Expression] =
      parts.flatMap { case (_, x) =>
        x.aggregateFunction match {
          case f: DeclarativeAggregate => declarative(x, f)
          case f: ImperativeAggregate => imperative(f)
        }
      }
  }
}
