package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.types._
import org.apache.spark.sql.{AnalysisException, Column}

/**
 * An aggregate function that is code, not expressions: where its buffer starts, its FILTER, and the
 * attribute its result is read by.
 */
case class ImperativeColumn(fn: ImperativeAggregate, filter: Option[Expression], at: Int, result: AttributeReference)

/** A fold of the user's own: named state fields with zero, update and perhaps merge, and a result. */
case class UserFold(column: String, fields: Seq[String], zero: Seq[Column], update: Seq[Column], merge: Option[Seq[Column]], retract: Option[Seq[Column]], result: Column)

/**
 * What a table does to a key's state, as expressions: `zero` makes it, `update` folds the row `in` into it,
 * `merge` folds another state (`right`) into it, `result` reads it. Every Spark aggregate already carries
 * these; a fold of the user's own is written the same way.
 */
case class AggregateFold(in: Seq[Attribute], keys: Seq[Attribute], state: Seq[AttributeReference], right: Seq[AttributeReference], zero: Seq[Expression],
    update: Seq[Expression], merge: Option[Seq[Expression]], result: Seq[NamedExpression], coded: Seq[ImperativeColumn], previous: Boolean = false) {
  /** A row as readers have seen it, for those who must take it back: its operation and its columns. */
  def seen: StructType = StructType(StructField(InternalColumns.Op, StringType) +: result.map(r => StructField(r.name, r.dataType)))
  /** Whether a state is fields of fixed width alone, which can be changed in place. */
  def flat: Boolean = coded.isEmpty && state.forall(a => UnsafeRow.isMutable(a.dataType))
  def schema: StructType = StructType(state.map(a => StructField(a.name, a.dataType, nullable = true)))

  /** Both folds over the same rows. */
  def ++(o: AggregateFold): AggregateFold = {
    val moved = o.coded.map(c => c.copy(at = c.at + state.length))
    copy(state = state ++ o.state, right = right ++ o.right, zero = zero ++ o.zero, update = update ++ o.update,
      merge = for (a <- merge; b <- o.merge) yield a ++ b, result = result ++ o.result, coded = coded ++ moved)
  }

  /** The same fold reading other rows: `f` says what each expression over `in` is there. */
  def reading(rows: Seq[Attribute])(f: Expression => Expression): AggregateFold =
    copy(in = rows, update = update.map(f), coded = coded.map(c => c.copy(fn = f(c.fn).asInstanceOf[ImperativeAggregate], filter = c.filter.map(f))))

  /** All that folding a row refers to: columns, and the state's own fields. */
  def references: AttributeSet = AttributeSet((update ++ coded.map(_.fn) ++ coded.flatMap(_.filter)).flatMap(_.references))
}

object AggregateFold {
  /**
   * Any Spark aggregates, by the names of their columns; with a weight, those that can also give back a
   * row.
   */
  def aggregates(lens: ColumnScope, keys: Seq[String], columns: Seq[(String, Column)], weight: Option[Attribute] = None): AggregateFold = {
    val analyzed = ColumnScope.aggregate(lens, keys, columns)
    val plain = analyzed.aggregateExpressions.drop(keys.length).map(e => distinctAsSet(ColumnScope.plain(e, lens.now)).asInstanceOf[NamedExpression])
    val outputs = weight.fold(plain)(w => plain.map(RetractableAggregates(_, w).asInstanceOf[NamedExpression]))
    outputs.foreach(o => if (!o.exists(_.isInstanceOf[AggregateExpression])) throw new RefusedException(s"${o.name} is no aggregate: say how the rows of a key become one value, as in max(...)"))
    val found = outputs.flatMap(o => o.collect { case x: AggregateExpression => o.name -> x })
    // One buffer for an aggregate that several columns use, named after the first of them.
    val parts = found.foldLeft(Vector.empty[(String, AggregateExpression)]) { case (all, p) => if (all.exists(_._2.semanticEquals(p._2))) all else all :+ p }
    val names = fieldNames(parts)
    val starts = parts.scanLeft(0)(_ + _._2.aggregateFunction.aggBufferAttributes.length)
    val state = parts.flatMap(_._2.aggregateFunction.aggBufferAttributes).zip(names).map { case (a, n) => a.withName(n).withNullability(true).asInstanceOf[AttributeReference] }
    val right = parts.flatMap(_._2.aggregateFunction.inputAggBufferAttributes).zip(names).map { case (a, n) => a.withName(n).withNullability(true).asInstanceOf[AttributeReference] }
    def each(d: (AggregateExpression, DeclarativeAggregate) => Seq[Expression], i: ImperativeAggregate => Seq[Expression]) = parts.flatMap { case (_, x) =>
      x.aggregateFunction match { case f: DeclarativeAggregate => d(x, f); case f: ImperativeAggregate => i(f) } }
    val zero = each((_, f) => f.initialValues, _.aggBufferAttributes.map(a => Literal(null, a.dataType)))
    val update = each((x, f) => x.filter.fold(f.updateExpressions)(p => f.updateExpressions.zip(f.aggBufferAttributes).map { case (u, b) => If(p, u, b) }),
      _.aggBufferAttributes.map(_ => NoOp)) // coded functions keep their own slots
    val merge = each((_, f) => f.mergeExpressions, _.aggBufferAttributes.map(_ => NoOp))
    val coded = parts.zip(starts).collect { case ((_, x), at) if x.aggregateFunction.isInstanceOf[ImperativeAggregate] =>
      ImperativeColumn(x.aggregateFunction.asInstanceOf[ImperativeAggregate], x.filter, at, AttributeReference("result", x.dataType)()) }
    def value(x: AggregateExpression): Expression = {
      val (mine, at) = parts.zip(starts).collectFirst { case ((_, y), a) if y.semanticEquals(x) => (y, a) }.get
      mine.aggregateFunction match { case f: DeclarativeAggregate => f.evaluateExpression; case _ => coded.find(_.at == at).get.result }
    }
    val result = outputs.map(o => Alias(ColumnScope.unalias(o).transformUp { case x: AggregateExpression => value(x) }, o.name)())
    AggregateFold(lens.seen, analyzed.groupingExpressions.map(_.asInstanceOf[Attribute]), state, right, zero, update, Some(merge), result, coded)
  }

  private def fieldNames(parts: Seq[(String, AggregateExpression)]): Seq[String] =
    parts.flatMap { case (column, x) => x.aggregateFunction.aggBufferAttributes.map(a => s"${column}_${a.name}".replaceAll("\\W+", "_").stripSuffix("_")) }

  /** Fields of the state are told apart by name, whatever columns and folds are called. */
  def distinctNames(f: AggregateFold): AggregateFold = {
    val names = f.state.map(_.name).foldLeft(Vector.empty[String])((all, n) =>
      all :+ Iterator.from(1).map(i => if (i == 1) n else s"${n}_$i").find(c => !all.exists(_.equalsIgnoreCase(c))).get)
    def named(fields: Seq[AttributeReference]) = fields.zip(names).map { case (a, n) => a.withName(n).asInstanceOf[AttributeReference] }
    f.copy(state = named(f.state), right = named(f.right))
  }

  /** count(distinct a, b), which Spark's streams refuse, as the size of the set of (a, b) without nulls. */
  private def distinctAsSet(e: Expression): Expression = e.transformUp {
    case AggregateExpression(Count(given), _, true, filter, _) =>
      val args = given.map(NormalizeFloatingNumbers.normalize)
      val known = args.map(a => IsNotNull(a): Expression).reduce(And(_, _))
      val one = if (args.length == 1) args.head else CreateStruct.create(args)
      Cast(Size(AggregateExpression(CollectSet(one), Complete, isDistinct = false, Some(filter.fold(known)(And(_, known)))), legacySizeOfNull = false), LongType)
    case x: AggregateExpression if x.isDistinct =>
      throw new RefusedException(s"${x.aggregateFunction.prettyName}(distinct ...) can't be kept up to date; count(distinct ...) and collect_set(...) can")
  }

  /**
   * A fold of the user's own. `state` and `other` are structs to the analyzer and plain fields to the
   * kernel.
   */
  def own(lens: ColumnScope, keys: Seq[Attribute], f: UserFold, weight: Option[Attribute] = None): AggregateFold = {
    val zeros = f.fields.zip(f.zero).map { case (n, c) => at(s"zero of $n") { val e = lens.select(Seq(c.as(n))).exprs.head
      if (e.references.nonEmpty) throw new RefusedException("a zero may not look at the row; it is the state before the first one"); e } }
    zeros.zip(f.fields).foreach { case (z, n) => if (z.dataType == NullType) throw new RefusedException(s"zero of $n has no type; write cast(null as double) or the type you mean") }
    val struct = StructType(f.fields.zip(zeros).map { case (n, z) => StructField(n, z.dataType) })
    val state = f.fields.zip(zeros).map { case (n, z) => AttributeReference(s"${f.column}_$n", z.dataType)() }
    val right = state.map(_.newInstance().asInstanceOf[AttributeReference])
    def over(named: Seq[(String, Seq[AttributeReference])], what: String, n: String, c: Column, rows: Seq[Attribute]): Expression = at(s"$what of $n") {
      val structs = named.map { case (name, fields) => AttributeReference(name, struct)() -> fields }
      val visible = rows.filterNot(r => structs.exists(_._1.name.equalsIgnoreCase(r.name))) ++ structs.map(_._1)
      val wide = lens.copy(seen = visible, exprs = visible)
      wide.select(Seq(c.as("value"))).exprs.head.transformDown {
        case g @ GetStructField(a: AttributeReference, i, _) if structs.exists(_._1.exprId == a.exprId) => structs.find(_._1.exprId == a.exprId).get._2(i)
        case a: AttributeReference if structs.exists(_._1.exprId == a.exprId) =>
          CreateNamedStruct(structs.find(_._1.exprId == a.exprId).get._2.zip(f.fields).flatMap { case (x, name) => Seq(Literal(name), x) })
      }
    }
    def same(what: String)(e: Expression, i: Int): Expression = if (DataType.equalsIgnoreNullability(e.dataType, zeros(i).dataType)) e
      else if (e.dataType == NullType) Cast(e, zeros(i).dataType)
      else throw new RefusedException(s"$what of ${f.fields(i)} gives ${e.dataType.sql}, its zero is ${zeros(i).dataType.sql}; cast one of them")
    def step(what: String, parts: Seq[Column]) = parts.zipWithIndex.map { case (c, i) => same(what)(over(Seq("state" -> state), what, f.fields(i), c, lens.seen), i) }
    val (forth, back) = (step("update", f.update), f.retract.map(step("retract", _)))
    if (weight.isDefined && back.isEmpty) throw new RefusedException(s"rows of ${f.column} may be taken back; say how with retract=")
    val update = weight.fold(forth)(w => forth.zip(back.get).map { case (u, r) => If(LessThan(w, Literal(0)), r, u) })
    val merge = f.merge.map(_.zipWithIndex.map { case (c, i) => same("merge")(over(Seq("state" -> state, "other" -> right), "merge", f.fields(i), c, Nil), i) })
    val result = over(Seq("state" -> state), "result", f.column, f.result, keys)
    AggregateFold(lens.seen, keys, state, right, zeros, update, merge, Seq(Alias(result, f.column)()), Nil)
  }

  /** Says in which part of a fold something is wrong. */
  private def at[T](part: String)(body: => T): T = try body catch {
    case r: RefusedException if r.getMessage != InternalColumns.NeedsClock => throw new RefusedException(s"in $part: ${r.getMessage}")
    case a: AnalysisException => throw new RefusedException(s"in $part: ${RowError.reason(a).replaceFirst("^\\[[A-Z_.]+\\] ", "")}")
  }

  /** Where a pane or a session starts, and where a session ends, in microseconds. */
  def start(of: Expression): AggregateFold = extreme(InternalColumns.Start, of, Least(_))
  def end(of: Expression): AggregateFold = extreme(InternalColumns.End, of, Greatest(_))
  private def extreme(name: String, of: Expression, which: Seq[Expression] => Expression): AggregateFold = {
    val s = AttributeReference(name, LongType)(); val r = s.newInstance().asInstanceOf[AttributeReference]
    AggregateFold(Nil, Nil, Seq(s), Seq(r), Seq(Literal(null, LongType)), Seq(which(Seq(s, of))), Some(Seq(which(Seq(s, r)))), Nil, Nil)
  }

  /** How many rows are left, where rows may be taken back. */
  def left(weight: Expression): AggregateFold = {
    val s = AttributeReference(InternalColumns.Left, LongType)(); val r = s.newInstance().asInstanceOf[AttributeReference]
    AggregateFold(Nil, Nil, Seq(s), Seq(r), Seq(Literal(0L)), Seq(Add(s, Cast(weight, LongType))), Some(Seq(Add(s, r))), Nil, Nil)
  }

  /**
   * The newest row: its columns, kept whole. Rows come in order, so that of equal times the last one
   * counts.
   */
  def newest(columns: Seq[(String, Expression)], time: Option[Expression]): AggregateFold = {
    val at = AttributeReference(InternalColumns.Newest, LongType)()
    val state = columns.map { case (n, e) => AttributeReference(n, e.dataType)() }
    val now = time.fold(Literal(0L): Expression)(UnixMicros(_))
    val newer = Or(IsNull(at), Coalesce(Seq(GreaterThanOrEqual(now, at), Literal(false))))
    val update = (Coalesce(Seq(now, at)) +: columns.map(_._2)).zip(at +: state).map { case (e, s) => If(newer, e, s) }
    val fields = at +: state
    AggregateFold(Nil, Nil, fields, fields.map(_.newInstance().asInstanceOf[AttributeReference]), fields.map(f => Literal(null, f.dataType)), update, None,
      state.map(s => Alias(s, s.name)()), Nil)
  }

  /** When the key was last seen, in milliseconds; what TTL counts from. */
  def seen(time: Option[Expression]): AggregateFold = {
    val s = AttributeReference(InternalColumns.Seen, LongType)(); val r = s.newInstance().asInstanceOf[AttributeReference]
    val update = time.fold(s: Expression)(t => Greatest(Seq(s, UnixMillis(t))))
    AggregateFold(Nil, Nil, Seq(s), Seq(r), Seq(Literal(null, LongType)), Seq(update), Some(Seq(Greatest(Seq(s, r)))), Nil, Nil)
  }
}
