package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate
import org.apache.spark.sql.types._

/**
 * An aggregate function that is code, not expressions: where its buffer starts in the state, its FILTER,
 * and the attribute that stands for its result.
 */
case class ImperativeColumn(
    fn: ImperativeAggregate,
    filter: Option[Expression],
    at: Int,
    result: AttributeReference)

/**
 * What a table does to a key's state, as expressions: `zero` creates it, `update` folds the row `in` into
 * it, `merge` folds another state (`right`) into it, `result` reads it. Every Spark aggregate already
 * carries these; a fold of the user's own is written the same way. `previous`: changes carry the row before
 * them. `origins`: what the fields are of, where that is more than their names.
 */
case class AggregateFold(
    in: Seq[Attribute],
    keys: Seq[Attribute],
    state: Seq[AttributeReference],
    right: Seq[AttributeReference],
    zero: Seq[Expression],
    update: Seq[Expression],
    merge: Option[Seq[Expression]],
    result: Seq[NamedExpression],
    coded: Seq[ImperativeColumn],
    previous: Boolean = false,
    origins: Seq[String] = Nil) {
  /** What each field of the state is of, whatever it is called: two folds can hand on equal ones. */
  def fieldOrigins: Seq[String] = if (origins.isEmpty) state.map(_.name) else origins
  /** A row as readers have seen it, for those that must retract it: its operation and its columns. */
  def seen: StructType = StructType(
    StructField(InternalColumns.Op, StringType) +: result.map(r => StructField(r.name, r.dataType)))
  /** Whether the state has only fixed-width fields, which can be changed in place. */
  def flat: Boolean = coded.isEmpty && state.forall(a => UnsafeRow.isMutable(a.dataType))
  def schema: StructType = StructType(state.map(a => StructField(a.name, a.dataType, nullable = true)))

  /** Both folds over the same rows. */
  def ++(other: AggregateFold): AggregateFold = copy(
    state = state ++ other.state,
    right = right ++ other.right,
    zero = zero ++ other.zero,
    update = update ++ other.update,
    merge = for (mine <- merge; others <- other.merge) yield mine ++ others,
    result = result ++ other.result,
    coded = coded ++ other.coded.map(c => c.copy(at = c.at + state.length)),
    origins = fieldOrigins ++ other.fieldOrigins)

  /** The same fold over other rows: `rewrite` turns an expression over `in` into one over `rows`. */
  def reading(rows: Seq[Attribute])(rewrite: Expression => Expression): AggregateFold = copy(
    in = rows,
    update = update.map(rewrite),
    coded = coded.map(c => c.copy(
      fn = rewrite(c.fn).asInstanceOf[ImperativeAggregate], filter = c.filter.map(rewrite))))

  /** All that folding a row refers to: columns, and the state's own fields. */
  def references: AttributeSet =
    AttributeSet((update ++ coded.map(_.fn) ++ coded.flatMap(_.filter)).flatMap(_.references))

  /** The same fold with state fields that differ by name, whatever columns and folds are called. */
  def withDistinctNames: AggregateFold = {
    val names = state.map(_.name).foldLeft(Vector.empty[String]) { (taken, name) =>
      val candidates = Iterator.from(1).map(i => if (i == 1) name else s"${name}_$i")
      taken :+ candidates.find(c => !taken.exists(_.equalsIgnoreCase(c))).get
    }
    copy(state = AggregateFold.renamed(state, names), right = AggregateFold.renamed(right, names))
  }
}

/** The folds that keyfold adds to the user's columns. */
object AggregateFold {
  /** Where a pane or a session starts, in microseconds. */
  def start(of: Expression): AggregateFold = extreme(InternalColumns.Start, of, Least(_))

  /** Where a session ends, in microseconds. */
  def end(of: Expression): AggregateFold = extreme(InternalColumns.End, of, Greatest(_))

  private def extreme(name: String, of: Expression, which: Seq[Expression] => Expression): AggregateFold =
    single(name, Literal(null, LongType), s => which(Seq(s, of)), (s, other) => which(Seq(s, other)))

  /** How many rows of a retracting stream are left. */
  def left(weight: Expression): AggregateFold = single(
    InternalColumns.Left, Literal(0L), s => Add(s, Cast(weight, LongType)), (s, other) => Add(s, other))

  /** When the key was last seen, in milliseconds; its TTL counts from there. */
  def seen(time: Option[Expression]): AggregateFold = single(
    InternalColumns.Seen,
    Literal(null, LongType),
    s => time.fold(s)(t => Greatest(Seq(s, UnixMillis(t)))),
    (s, other) => Greatest(Seq(s, other)))

  /**
   * The newest row: all of its columns. Rows come in order, so the last of several with the same time
   * counts.
   */
  def newest(columns: Seq[(String, Expression)], time: Option[Expression]): AggregateFold = {
    val at = AttributeReference(InternalColumns.Newest, LongType)()
    val state = columns.map { case (name, e) => AttributeReference(name, e.dataType)() }
    val now = time.fold(Literal(0L): Expression)(UnixMicros(_))
    val isNewer = Or(IsNull(at), Coalesce(Seq(GreaterThanOrEqual(now, at), Literal(false))))
    val values = Coalesce(Seq(now, at)) +: columns.map(_._2)
    val fields = at +: state
    AggregateFold(
      in = Nil,
      keys = Nil,
      state = fields,
      right = fields.map(copied),
      zero = fields.map(f => Literal(null, f.dataType)),
      update = values.zip(fields).map { case (value, field) => If(isNewer, value, field) },
      merge = None,
      result = state.map(s => Alias(s, s.name)()),
      coded = Nil)
  }

  /** A fold whose state is one long and which has no column of its own. */
  private def single(
      name: String,
      zero: Expression,
      update: Expression => Expression,
      merge: (Expression, Expression) => Expression): AggregateFold = {
    val state = AttributeReference(name, LongType)()
    val right = copied(state)
    AggregateFold(
      in = Nil,
      keys = Nil,
      state = Seq(state),
      right = Seq(right),
      zero = Seq(zero),
      update = Seq(update(state)),
      merge = Some(Seq(merge(state, right))),
      result = Nil,
      coded = Nil)
  }

  private[expressions] def copied(a: AttributeReference): AttributeReference =
    a.newInstance().asInstanceOf[AttributeReference]

  private[expressions] def renamed(
      fields: Seq[AttributeReference],
      names: Seq[String]): Seq[AttributeReference] =
    fields.zip(names).map { case (a, name) => a.withName(name).asInstanceOf[AttributeReference] }
}
