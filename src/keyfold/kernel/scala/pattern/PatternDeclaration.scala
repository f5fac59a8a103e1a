package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BooleanSimplification, ConstantFolding, NullPropagation}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation}
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnScope, Fingerprint, RefusedException}
import org.apache.spark.sql.keyfold.expressions.StorableTypes
import org.apache.spark.sql.keyfold.state.RetainedRowsProcessor
import org.apache.spark.sql.types._
import org.apache.spark.util.CollectionAccumulator

/**
 * A pattern as it was declared. Its expressions are analyzed one by one, against the columns of a row and
 * those of the match so far, so that an error can name the expression.
 */
class PatternDeclaration(
    scope: ColumnScope,
    keys: Seq[Attribute],
    hasEventTime: Boolean,
    automaton: Automaton) {
  private val row = scope.seen
  private val rowStruct = RetainedRowsProcessor.schema(row)
  private val steps = automaton.steps.toSeq.map { name =>
    AttributeReference(name, ArrayType(rowStruct, containsNull = false), nullable = false)()
  }
  private val last = AttributeReference("last", rowStruct)()
  private val first = AttributeReference("first", rowStruct)()
  private val matchColumns = steps ++ Seq(last, first)
  refuseAmbiguousSteps()
  ArrayFunctions.register(scope.spark)

  private var declaredConditions = Vector.empty[Expression]
  private var returned = Vector.empty[(String, Expression)]
  private var trace: Option[CollectionAccumulator[String]] = None
  /** Set by `matching`, after all expressions. */
  var settings: PatternSettings = _

  private def refuseAmbiguousSteps(): Unit =
    steps.find(s => row.exists(_.name.equalsIgnoreCase(s.name))).foreach { s =>
      throw new RefusedException(
        s"a step and a column are both called ${s.name}; give the step another name")
    }

  /**
   * Declares how the pattern is matched. Durations are in milliseconds; `step` is the number of the step that
   * `skip` names. What is missing is null.
   */
  def matching(
      within: java.lang.Long,
      skip: String,
      step: Integer,
      eventOrder: Boolean,
      timeouts: Boolean,
      limit: Int,
      ttl: java.lang.Long): Unit = {
    def micros(ms: java.lang.Long) = Option(ms).map(_ * 1000)
    if (ttl != null) returned.foreach { case (name, e) =>
      StorableTypes.require(e.dataType, s"returns $name", ", as matches with a ttl are")
    }
    val matching = MatchSettings(automaton, Automaton.bits(ofRow.map(_._2)), micros(within),
      SkipStrategy(skip, Option(step).map(_.toInt)), timeouts, limit, ordered = eventOrder || !hasEventTime)
    settings = PatternSettings(matching, conditions, eventOrder, micros(ttl), trace)
  }

  /** Turns on the trace for `keyfold pattern explain`; returns the lines that tasks add to. */
  def traced(): CollectionAccumulator[String] = {
    trace = Some(scope.spark.sparkContext.collectionAccumulator[String])
    trace.get
  }

  /**
   * Declares a condition, in the order of the automaton's numbers; null accepts any row. A step's condition
   * must not be constantly false; that of a negation or of `until` must not be constantly true.
   */
  def condition(c: Column, ofStep: Boolean): Unit =
    declaredConditions :+= (if (c == null) Literal(true) else {
      val (visible, names) = scopeOf(row, stepNames ++ Seq("prev" -> last, "first" -> first))
      val e = resolve(visible.where(c), names)
      if (!dependsOnRowOnly(e)) refuseBatchTime(e)
      simplified(e) match {
        case Literal(value, _) if value != true && ofStep =>
          throw new RefusedException("no row can fit: the condition is never true")
        case Literal(true, _) if !ofStep =>
          throw new RefusedException("nothing can come after it: the condition is true for every row")
        case _ => e
      }
    })

  private def simplified(condition: Expression): Expression = {
    val filter = Filter(condition, LocalRelation(row))
    BooleanSimplification(ConstantFolding(NullPropagation(filter))).asInstanceOf[Filter].condition
  }

  /** Declares a column of the matches. */
  def returns(name: String, c: Column): Unit = {
    val (visible, names) = scopeOf(keys, stepNames ++ Seq("first" -> first, "last" -> last))
    val e = resolve(visible.select(Seq(c.as(name))).exprs.head, names)
    refuseBatchTime(e)
    returned :+= name -> e
  }

  private def stepNames: Seq[(String, Attribute)] = steps.map(s => s.name -> s)

  /** What an expression may refer to: `columns`, and what a match calls `others` unless a column hides it. */
  private def scopeOf(
      columns: Seq[Attribute],
      others: Seq[(String, Attribute)]): (ColumnScope, AttributeMap[Attribute]) = {
    val named = others.collect { case (name, a) if !columns.exists(_.name.equalsIgnoreCase(name)) =>
      a.withName(name).newInstance() -> a
    }
    val visible = columns ++ named.map(_._1)
    (scope.copy(seen = visible, exprs = visible), AttributeMap(named))
  }

  private def resolve(e: Expression, names: AttributeMap[Attribute]): Expression = e.transform {
    case a: AttributeReference if names.contains(a) => names(a)
    // A step may have fewer rows than the index asks for.
    case item: GetArrayItem => item.copy(failOnError = false)
  }

  /** The batch's time is evaluated with the row, before the shuffle; later expressions can't read it. */
  private def refuseBatchTime(e: Expression): Unit = if (scope.now.exists(e.references.contains))
    throw new RefusedException("the time of the batch is not known here; let it be a column of the stream, " +
      "as in .select(\"*\", seen=\"current_timestamp()\"), and use that")

  private def dependsOnRowOnly(e: Expression): Boolean =
    e.references.forall(a => (row ++ scope.now).exists(_.exprId == a.exprId))
  /** Conditions with their numbers: those that the row alone decides, and those that depend on the match. */
  private lazy val (ofRow, dependent) = declaredConditions.zipWithIndex.partition(c => dependsOnRowOnly(c._1))

  private def conditions: MatchConditions =
    MatchConditions(dependent.map(_.swap).toMap, row, stored, steps, last, first)

  /** A bit for each condition that the row alone decides. */
  def mask: Expression = ofRow.foldLeft(Literal(0L): Expression) { case (bits, (c, number)) =>
    BitwiseOr(bits, If(scope.inSource(c), Literal(1L << number), Literal(0L)))
  }

  /** Whether a row makes a difference; None if every row does. */
  def relevant: Option[Expression] =
    if (automaton.everyRowCounts || dependent.nonEmpty || trace.isDefined) None
    else Some(ofRow.map(c => scope.inSource(c._1)).reduce(Or(_, _)))

  /** The columns of a row that are read after it was matched. */
  private lazy val stored: Seq[Attribute] = {
    val columns = new ReadColumns(row, matchColumns)
    val read = (returned.map(_._2) ++ dependent.map(_._1)).flatMap(columns(_)).toSet
    read.foreach(a => StorableTypes.require(a.dataType, s"column ${a.name}"))
    // A condition may throw on a row in the state operator: the rejected row should then be complete.
    if (dependent.nonEmpty || trace.isDefined) row.filter(a => ColumnScope.storable(a.dataType))
    else row.filter(read)
  }

  /** A row as it is stored: columns that are not read are null. */
  def storedRow: Expression = CreateNamedStruct(row.flatMap { a =>
    val value = if (stored.contains(a)) scope.inSource(a) else Literal(null, PatternDeclaration.Unread)
    Seq(Literal(a.name), value)
  })

  /** Expressions over the source that the pattern evaluates. */
  def reads: Seq[Expression] = declaredConditions.map(scope.inSource) :+ storedRow

  /** The columns of a match as a fold whose state is the match; the match's id is part of the key. */
  def fold: AggregateFold = {
    val started = AttributeReference("started", TimestampType)()
    val ended = AttributeReference("ended", TimestampType)()
    val timedOut = AttributeReference("timed_out", BooleanType)()
    val state = Seq(started, ended, timedOut) ++ matchColumns
    val own = Seq(started, ended) ++ (if (settings.matching.timeouts) Seq(timedOut) else Nil)
    val matchId = AttributeReference("match_id", StringType, nullable = false)()
    AggregateFold(Nil, keys :+ matchId, state, state.map(_.newInstance().asInstanceOf[AttributeReference]),
      state.map(s => Literal(null, s.dataType)), state, None,
      own ++ returned.map { case (name, e) => Alias(e, name)() }, Nil)
  }

  /** The fingerprint of each part, however it was spelt. */
  def meaning(fingerprint: Fingerprint): Seq[(String, String)] = {
    val names = matchColumns.map(a => a.exprId -> s"match.${a.name}").toMap
    // The name of an `until` continues with its text.
    def name(number: Int) = automaton.conditionNames(number).takeWhile(_ != ' ')
    val conditions = declaredConditions.zipWithIndex.map { case (c, i) =>
      s"condition:${name(i)}:$i" -> fingerprint(c, names)
    }
    val columns = returned.map { case (n, e) => s"column:$n" -> fingerprint(e, names) }
    conditions ++ columns :+ ("columns" -> returned.map(_._1).mkString(", "))
  }
}

object PatternDeclaration {
  /** The type of columns that are not stored, whatever theirs is: they are null. */
  val Unread: DataType = BooleanType
}
