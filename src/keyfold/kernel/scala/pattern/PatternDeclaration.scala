package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BooleanSimplification, ConstantFolding, NullPropagation}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnScope, Fingerprint, RefusedException}
import org.apache.spark.sql.keyfold.state.RetainedRowsProcessor
import org.apache.spark.sql.types._
import org.apache.spark.util.CollectionAccumulator

/** A pattern as it was declared: its expressions, analyzed one by one against the columns of a row and what a match has taken so far. */
class PatternDeclaration(lens: ColumnScope, keys: Seq[Attribute], timed: Boolean, automaton: Automaton) {
  private val row = lens.seen
  private val struct = RetainedRowsProcessor.schema(row)
  private val steps = automaton.steps.toSeq.map(n => AttributeReference(n, ArrayType(struct, containsNull = false), nullable = false)())
  private val (last, first) = (AttributeReference("last", struct)(), AttributeReference("first", struct)())
  steps.foreach(s => row.find(_.name.equalsIgnoreCase(s.name)).foreach(_ => throw new RefusedException(s"a step and a column are both called ${s.name}; give the step another name")))
  PatternDeclaration.functions(lens.spark)

  private var conditions = Vector.empty[Expression]
  private var returned = Vector.empty[(String, Expression)]
  /** How it is matched; known once all else is. */
  var how: PatternSettings = _

  /** How it is matched: lengths in milliseconds, below zero where there is none; `step` is a number, below zero where `skip` names none. */
  def matching(within: Long, skip: String, step: Int, held: Boolean, timeouts: Boolean, limit: Int, ttl: Long, label: String): Unit = {
    def some(ms: Long) = Some(ms * 1000).filter(_ >= 0)
    if (ttl >= 0) returned.find(r => !ColumnScope.storable(r._2.dataType)).foreach { case (n, e) =>
      throw new RefusedException(s"returns $n is of type ${e.dataType.sql}, which can't be kept in state, as matches with a ttl are; turn it into a number or a text first")
    }
    val matching = MatchSettings(automaton, Automaton.bits(own.map(_._2)), some(within), Skip(skip, step), timeouts, limit, held || !timed)
    how = PatternSettings(matching, looks, held, some(ttl), label, trace)
  }
  private var trace: Option[CollectionAccumulator[String]] = None
  /** From now on each row's way is written down, for `keyfold pattern explain`. */
  def traced(): CollectionAccumulator[String] = { trace = Some(lens.spark.sparkContext.collectionAccumulator[String]); trace.get }

  /** The columns that an expression sees; a column of the row's hides what a match calls the same. */
  private def over(columns: Seq[Attribute], others: Seq[(String, Attribute)]): (ColumnScope, AttributeMap[Attribute]) = {
    val named = others.filterNot { case (n, _) => columns.exists(_.name.equalsIgnoreCase(n)) }.map { case (n, a) => a.withName(n).newInstance() -> a }
    val visible = columns ++ named.map(_._1)
    (lens.copy(seen = visible, exprs = visible), AttributeMap(named))
  }
  private def restored(e: Expression, names: AttributeMap[Attribute]): Expression = e.transform {
    case a: AttributeReference if names.contains(a) => names(a)
    // There may be fewer rows than asked for.
    case g: GetArrayItem => g.copy(failOnError = false)
  }

  /** A condition, in the order of the automaton's numbers; null is any row. `never` says what it must not be for all rows. */
  def condition(c: Column, never: Boolean): Unit = conditions :+= (if (c == null) Literal(true) else {
    val (wide, names) = over(row, steps.map(s => s.name -> s) ++ Seq("prev" -> last, "first" -> first))
    val e = restored(wide.where(c), names)
    if (!ofRow(e)) clockless(e)
    BooleanSimplification(ConstantFolding(NullPropagation(Filter(e, LocalRelation(row))))).asInstanceOf[Filter].condition match {
      case Literal(value, _) if value != true && never => throw new RefusedException("no row can fit: the condition is never true")
      case Literal(true, _) if !never => throw new RefusedException("nothing can come after it: the condition is true for every row")
      case _ => e
    }
  })

  def returns(name: String, c: Column): Unit = {
    val (wide, names) = over(keys, steps.map(s => s.name -> s) ++ Seq("first" -> first, "last" -> last))
    val e = restored(wide.select(Seq(c.as(name))).exprs.head, names)
    clockless(e)
    returned :+= name -> e
  }

  /** The time of a row's batch is known with the row, before it goes through the shuffle. */
  private def clockless(e: Expression): Unit = if (lens.now.exists(e.references.contains))
    throw new RefusedException("the time of the batch is not known here; let it be a column of the stream, as in .select(\"*\", seen=\"current_timestamp()\"), and use that")

  private def ofRow(e: Expression): Boolean = e.references.forall(a => (row ++ lens.now).exists(_.exprId == a.exprId))
  private lazy val (own, others) = conditions.zipWithIndex.partition(c => ofRow(c._1))

  /** What a condition looks at, for the kernel. */
  def looks: MatchConditions = MatchConditions(others.map(_.swap).toMap, row, read, steps, last, first)

  /** A bit for each condition that a row alone decides. */
  def mask: Expression = own.foldLeft(Literal(0L): Expression) { case (all, (c, i)) => BitwiseOr(all, If(lens.inSource(c), Literal(1L << i), Literal(0L))) }

  /** Whether a row makes a difference: if none of the conditions is true for it, and it need not be the very next one, it does not. */
  def relevant: Option[Expression] = if (automaton.strict || others.nonEmpty || trace.isDefined) None else Some(own.map(c => lens.inSource(c._1)).reduce(Or(_, _)))

  /** The columns of a row that something reads once it is taken. */
  private lazy val read: Seq[Attribute] = {
    val needed = (returned.map(_._2) ++ others.map(_._1)).flatMap(used).toSet.map(row(_))
    needed.foreach(a => if (!ColumnScope.storable(a.dataType)) throw new RefusedException(s"column ${a.name} is of type ${a.dataType.sql}, which can't be kept in state; turn it into a number or a text first"))
    // A row that is rejected once it has been taken up is told whole, as far as it can be.
    if (others.nonEmpty || trace.isDefined) row.filter(a => ColumnScope.storable(a.dataType)) else row.filter(needed)
  }
  /** The columns of a row as they are kept; those that nothing reads are null. */
  def kept: Expression = CreateNamedStruct(row.flatMap(a => Seq(Literal(a.name), if (read.contains(a)) lens.inSource(a) else Literal(null, PatternDeclaration.Unread))))
  private def taken(e: Expression): Boolean = e match { case a: Attribute => (steps ++ Seq(last, first)).exists(_.exprId == a.exprId); case _ => false }
  private def used(e: Expression): Set[Int] = e match {
    case GetArrayStructFields(a, _, i, _, _) if taken(a) => Set(i)
    case GetStructField(GetArrayItem(a, n, _), i, _) if taken(a) => Set(i) ++ used(n)
    case GetStructField(a, i, _) if taken(a) => Set(i)
    case Size(a, _) if taken(a) => Set.empty
    case a if taken(a) => row.indices.toSet
    case a: Attribute => row.indices.filter(row(_).exprId == a.exprId).toSet
    case other => other.children.flatMap(used).toSet
  }

  /** Columns of the source that are read. */
  def reads: Seq[Expression] = conditions.map(lens.inSource) :+ kept

  /** What a match shows: its identity is part of its key. */
  def shown: AggregateFold = {
    val (started, ended, out) = (AttributeReference("started", TimestampType)(), AttributeReference("ended", TimestampType)(), AttributeReference("timed_out", BooleanType)())
    val state = Seq(started, ended, out) ++ looks.match_.map(_.asInstanceOf[AttributeReference])
    val result = Seq(started, ended) ++ (if (how.matching.timeouts) Seq(out) else Nil) ++ returned.map { case (n, e) => Alias(e, n)() }
    AggregateFold(Nil, keys :+ AttributeReference("match_id", StringType, nullable = false)(), state, state.map(_.newInstance().asInstanceOf[AttributeReference]),
      state.map(s => Literal(null, s.dataType)), state, None, result, Nil)
  }

  def meaning(canon: Fingerprint): Seq[(String, String)] = {
    val named = looks.match_.map(a => a.exprId -> s"match.${a.name}").toMap
    // Not as it is spelt, which the name of an until is.
    def name(i: Int) = automaton.names(i).takeWhile(_ != ' ')
    conditions.zipWithIndex.map { case (c, i) => s"condition:${name(i)}:$i" -> canon(c, named) } ++ returned.map { case (n, e) => s"column:$n" -> canon(e, named) } :+
      ("columns" -> returned.map(_._1).mkString(", "))
  }
}

object PatternDeclaration {
  /** Stands for whatever type a column has that nothing reads. */
  val Unread: DataType = BooleanType
  private val lines = Map(
    "array_sum" -> "aggregate(filter(x, v -> v is not null), 0D, (s, v) -> s + v)",
    "array_avg" -> "aggregate(filter(x, v -> v is not null), named_struct('s', 0D, 'n', 0), (a, v) -> named_struct('s', a.s + v, 'n', a.n + 1), a -> a.s / nullif(a.n, 0))")

  /** Sums and averages of what a step's rows have, which Spark has no short words for. */
  def functions(spark: SparkSession): Unit = {
    val registry = spark.sessionState.functionRegistry
    // A function of the user's that has the name goes first.
    lines.filterNot(l => spark.sessionState.catalog.functionExists(FunctionIdentifier(l._1))).foreach { case (name, line) =>
      val parsed = spark.sessionState.sqlParser.parseExpression(line)
      registry.createOrReplaceTempFunction(name, {
        case Seq(x) => parsed.transform { case UnresolvedAttribute(Seq("x")) => x }
        case _ => throw new RefusedException(s"$name takes one array")
      }, "scala_udf")
    }
  }
}
