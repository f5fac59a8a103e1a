package org.apache.spark.sql.keyfold.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{AnalysisException, Column}

/** A fold of the user's own: named state fields with zero, update and perhaps merge, and a result. */
case class UserFold(
    column: String,
    fields: Seq[String],
    zero: Seq[Column],
    update: Seq[Column],
    merge: Option[Seq[Column]],
    retract: Option[Seq[Column]],
    result: Column) {
  /** The fold over the columns of `scope`. With a weight, rows may be retracted. */
  def analyzed(scope: ColumnScope, keys: Seq[Attribute], weight: Option[Attribute] = None): AggregateFold =
    new UserFoldAnalysis(this, scope, keys, weight).fold
}

/**
 * Analyzes a user's fold. `state` and `other` are structs in what the user wrote, and plain fields in the
 * kernel's state.
 */
private class UserFoldAnalysis(
    declared: UserFold,
    scope: ColumnScope,
    keys: Seq[Attribute],
    weight: Option[Attribute]) {
  import UserFoldAnalysis.in
  import declared.{column, fields}

  private val zeros: Seq[Expression] = fields.zip(declared.zero).map { case (name, c) => zero(name, c) }
  private val struct = StructType(fields.zip(zeros).map { case (name, z) => StructField(name, z.dataType) })
  private val state = fields.zip(zeros).map { case (name, z) =>
    AttributeReference(s"${column}_$name", z.dataType)()
  }
  private val right = state.map(AggregateFold.copied)
  private val ofState = Seq("state" -> state)

  def fold: AggregateFold = {
    val updates = steps("update", declared.update)
    val retractions = declared.retract.map(steps("retract", _))
    if (weight.isDefined && retractions.isEmpty) throw new RefusedException(
      s"$column is a fold over a retracting stream, and has no retract=; say how a row is retracted")
    AggregateFold(
      in = scope.seen,
      keys = keys,
      state = state,
      right = right,
      zero = zeros,
      update = weight.fold(updates)(w => updates.zip(retractions.get).map { case (update, retraction) =>
        If(LessThan(w, Literal(0)), retraction, update)
      }),
      merge = declared.merge.map(_.zipWithIndex.map { case (c, i) =>
        typed("merge", resolved(ofState :+ ("other" -> right), "merge", fields(i), c, Nil), i)
      }),
      result = Seq(Alias(resolved(ofState, "result", column, declared.result, keys), column)()),
      coded = Nil,
      origins = fields.map(name => s"fold $column.$name"))
  }

  private def zero(name: String, c: Column): Expression = {
    val e = in(s"zero of $name") {
      val found = scope.select(Seq(c.as(name))).exprs.head
      if (found.references.nonEmpty)
        throw new RefusedException("zero can't use the row's columns: it is the state before the first row")
      found
    }
    if (e.dataType == NullType) throw new RefusedException(
      s"zero of $name has no type; write cast(null as double) or the type you mean")
    e
  }

  private def steps(part: String, columns: Seq[Column]): Seq[Expression] =
    columns.zipWithIndex.map { case (c, i) =>
      typed(part, resolved(ofState, part, fields(i), c, scope.seen), i)
    }

  /** An expression over `rows` and over states, which are known by these names. */
  private def resolved(
      states: Seq[(String, Seq[AttributeReference])],
      part: String,
      name: String,
      c: Column,
      rows: Seq[Attribute]): Expression = in(s"$part of $name") {
    val structs = states.map { case (state, columns) => AttributeReference(state, struct)() -> columns }
    val visible = rows.filterNot(r => structs.exists(_._1.name.equalsIgnoreCase(r.name))) ++ structs.map(_._1)
    def columnsOf(a: Attribute) = structs.find(_._1.exprId == a.exprId).map(_._2)
    scope.copy(seen = visible, exprs = visible).select(Seq(c.as("value"))).exprs.head.transformDown {
      case GetStructField(a: AttributeReference, i, _) if columnsOf(a).isDefined => columnsOf(a).get(i)
      case a: AttributeReference if columnsOf(a).isDefined =>
        CreateNamedStruct(columnsOf(a).get.zip(fields).flatMap { case (x, field) => Seq(Literal(field), x) })
    }
  }

  /** An expression of the type of its field's zero. */
  private def typed(part: String, e: Expression, i: Int): Expression = {
    val expected = zeros(i).dataType
    if (DataType.equalsIgnoreNullability(e.dataType, expected)) e
    else if (e.dataType == NullType) Cast(e, expected)
    else throw new RefusedException(
      s"$part of ${fields(i)} gives ${e.dataType.sql}, its zero is ${expected.sql}; cast one of them")
  }
}

private object UserFoldAnalysis {
  /** Adds to an error in which part of the fold it is. */
  def in[T](part: String)(body: => T): T = try body catch {
    case clock: ClockNeededException => throw clock
    case r: RefusedException => throw new RefusedException(s"in $part: ${r.getMessage}")
    case a: AnalysisException if Option(a.getCondition).exists(_.startsWith("UNRESOLVED_COLUMN.")) =>
      val near = Option(a.getMessageParameters.get("proposal")).fold("")(names => s"; one of: $names")
      throw new RefusedException(
        s"in $part: there is no column ${a.getMessageParameters.get("objectName")}$near")
    case a: AnalysisException =>
      throw new RefusedException(s"in $part: ${RowError.reason(a).replaceFirst("^\\[[A-Z_.]+\\] ", "")}")
  }
}
