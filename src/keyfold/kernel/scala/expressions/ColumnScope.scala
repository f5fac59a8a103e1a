package org.apache.spark.sql.keyfold.expressions

import scala.util.control.NonFatal

import org.apache.spark.sql.avro.SchemaConverters
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{ReplaceCurrentLike, ReplaceExpressions}
import org.apache.spark.sql.catalyst.plans.logical.{
  Aggregate, Filter, LocalRelation, LogicalPlan, Project, Sort
}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.keyfold.spark.plans.SparkDatasets
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

/**
 * The columns a user sees at one point of a stream, each as an expression over the source's own columns.
 * Spark's analyzer resolves what the user wrote against `seen`; `inSource` then rewrites it onto the source
 * row, so that any chain of where and select costs one evaluation and no copy.
 */
case class ColumnScope(
    spark: SparkSession,
    source: Seq[Attribute],
    seen: Seq[Attribute],
    exprs: Seq[Expression],
    now: Option[Attribute]) {
  private val relation = LocalRelation(seen)
  private val meaning = AttributeMap(seen.zip(exprs))

  def frame: DataFrame = SparkDatasets.frame(spark, relation)

  def inSource(e: Expression): Expression =
    e.transform { case a: AttributeReference if meaning.contains(a) => meaning(a) }

  def where(c: Column): Expression = SparkDatasets.analyzed(frame.where(c)) match {
    case f @ Filter(_, `relation`) =>
      ColumnScope.plain(ColumnScope.ready(f, spark).asInstanceOf[Filter].condition, now)
    case other => throw new RefusedException(s"not a condition on one row: ${other.nodeName}")
  }

  def select(cs: Seq[Column]): ColumnScope = {
    val analyzed = ColumnScope.ready(SparkDatasets.analyzed(frame.select(cs: _*)), spark)
    val named = ColumnScope.flat(analyzed, relation)
      .map(e => ColumnScope.plain(e, now).asInstanceOf[NamedExpression])
    val repeated =
      named.groupBy(_.name.toLowerCase).collectFirst { case (_, same) if same.size > 1 => same.head.name }
    repeated.foreach(n => throw new RefusedException(s"two columns are called $n"))
    to(named.map(n => (n.name, inSource(ColumnScope.unalias(n)))))
  }

  /** What is written after ORDER BY in SQL. */
  def order(by: String): Seq[SortOrder] = {
    val parsed = spark.sessionState.sqlParser.parsePlan(s"SELECT * FROM rows ORDER BY $by")
    val written = parsed.collectFirst { case s: Sort => s.order }.getOrElse(
      throw new RefusedException(s"not an ORDER BY clause: $by"))
    SparkDatasets.analyzed(frame.sort(written.map(SparkDatasets.column): _*)) match {
      case s @ Sort(_, _, `relation`, _) =>
        val orders = ColumnScope.ready(s, spark).asInstanceOf[Sort].order
        orders.map(o => ColumnScope.plain(o, now).asInstanceOf[SortOrder])
      case other =>
        throw new RefusedException(s"ORDER BY must use columns of the row, not ${other.nodeName}")
    }
  }

  /** The same columns, with one more or with a new meaning for one. */
  def withColumn(name: String, added: Expression): ColumnScope = {
    val at = seen.indexWhere(_.name.equalsIgnoreCase(name))
    val pairs = seen.map(_.name).zip(exprs)
    to(if (at < 0) pairs :+ (name -> added) else pairs.updated(at, name -> added))
  }

  private def to(pairs: Seq[(String, Expression)]): ColumnScope =
    copy(seen = pairs.map { case (n, e) => AttributeReference(n, e.dataType)() }, exprs = pairs.map(_._2))
}

object ColumnScope {
  def of(spark: SparkSession, schema: StructType, hidden: Set[String]): ColumnScope = {
    val source = DataTypeUtils.toAttributes(schema)
    val visible = source.filterNot(a => hidden(a.name))
    val now = source.find(_.name == InternalColumns.Now)
    ColumnScope(spark, source, visible.map(_.newInstance()), visible, now)
  }

  /** Spark's state store records its schema in Avro, which some types have no equivalent in. */
  def storable(t: DataType): Boolean = try {
    SchemaConverters.toAvroTypeWithDefaults(new StructType().add("x", t))
    true
  } catch { case NonFatal(_) => false }

  def unalias(e: Expression): Expression = e match { case Alias(c, _) => c; case other => other }

  /** Functions that Spark replaces before it runs a plan, replaced; named sub-expressions written out. */
  def ready(plan: LogicalPlan, spark: SparkSession): LogicalPlan = {
    val replaced = ReplaceCurrentLike(spark.sessionState.catalogManager)(ReplaceExpressions(plan))
    replaced.transformAllExpressions {
      case w: With =>
        val defs = w.defs.map(d => d.id -> d.child).toMap
        // One within another has names of its own.
        w.child.transform { case r: CommonExpressionRef => defs.getOrElse(r.id, r) }
      case _: CurrentTimeZone => Literal(spark.sessionState.conf.sessionLocalTimeZone)
    }
  }

  /** A projection that refers to its own columns comes as several; one list over `base`. */
  private def flat(plan: LogicalPlan, base: LocalRelation): Seq[NamedExpression] = plan match {
    case Project(list, `base`) => list
    case Project(list, below: Project) =>
      val under = AttributeMap(flat(below, base).map(n => n.toAttribute -> unalias(n)))
      list.map {
        case a: Attribute => Alias(under(a), a.name)()
        case n =>
          val flattened = n.transform { case a: AttributeReference if under.contains(a) => under(a) }
          flattened.asInstanceOf[NamedExpression]
      }
    case other => throw new RefusedException(
      s"${other.nodeName} is not allowed here: the expression must be evaluated on one row; an aggregate " +
        "is a column of .by(...).table(...), anything else goes into .transform(...)")
  }

  /**
   * Refuses what can't be evaluated alone on a row, or not twice with the same answer; the clock becomes
   * the batch's own time.
   */
  def plain(e: Expression, now: Option[Attribute]): Expression = {
    lazy val clock = now.getOrElse(throw new ClockNeededException)
    e.foreach {
      case _: SubqueryExpression =>
        throw new RefusedException("a subquery can't run on each row; use .transform(...) for it")
      case u: PythonUDF => throw new RefusedException(
        s"${u.name} is a Python function, which the kernel can't call; use .transform(...) for it")
      case n: Nondeterministic => throw notRepeatable(n)
      case x if !x.deterministic && x.children.forall(_.deterministic) => throw notRepeatable(x)
      case _ =>
    }
    e.transform {
      case _: CurrentTimestamp | _: Now => clock
      case d: CurrentDate => Cast(clock, DateType, d.timeZoneId)
      case l: LocalTimestamp => Cast(clock, TimestampNTZType, l.timeZoneId)
    }
  }

  private def notRepeatable(e: Expression) = new RefusedException(
    s"${e.prettyName}() gives another value when a batch is replayed after a crash, " +
      "so totals would not be exact")

  /** The aggregate that `groupBy(keys).agg(columns)` means to Spark. */
  def aggregate(scope: ColumnScope, keys: Seq[String], columns: Seq[(String, Column)]): Aggregate = {
    import org.apache.spark.sql.functions.col
    val named = columns.map { case (n, c) => c.as(n) }
    val grouped = scope.frame.groupBy(keys.map(k => col(s"`$k`")): _*)
    val plan = SparkDatasets.analyzed(grouped.agg(named.head, named.tail: _*))
    // A node above it would be lost, and a window function or a generator with it.
    ready(plan, scope.spark) match {
      case a: Aggregate if a.child.isInstanceOf[LocalRelation] => a
      case other => throw new RefusedException(
        s"not an aggregate over the rows of a key (Spark plans it as ${other.nodeName})")
    }
  }
}
