package org.apache.spark.sql.keyfold

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.{Column, DataFrame, Row, SparkSession => AnySession}
import org.apache.spark.sql.avro.SchemaConverters
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project, TransformWithState}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** A column of a table as it was declared: an aggregate or a fold of the user's own. */
case class Declared(name: String, aggregate: Option[Column], own: Option[OwnFold])

/**
 * What Python calls. One object per table: each method takes one thing the user declared and analyzes it at once, so that what is wrong with it is known by
 * name; `table` and `rows` then build the plan.
 */
class Pipeline(df: DataFrame, keep: Boolean, origin: Origin) {
  private val spark = df.sparkSession.asInstanceOf[SparkSession]
  private val zone = spark.sessionState.conf.sessionLocalTimeZone
  private var lens = Lens.of(spark, df.schema, Names.hidden)
  private var conditions = Vector.empty[Expression]
  private var keys = Vector.empty[String]
  private var ungrouped: Lens = lens
  private var columns = Vector.empty[Declared]

  def where(c: Column): Unit = conditions :+= lens.inSource(lens.where(c))

  def select(cs: java.util.List[Column]): Unit = {
    lens = lens.select(cs.asScala.toSeq)
    // A column that nothing reads is still a column of the row: one that can't be computed makes the row bad, in every table alike.
    conditions :+= Touch(lens.exprs.filterNot(e => e.isInstanceOf[Attribute] || e.foldable))
  }

  def key(name: String, c: Column): Unit = {
    // All keys see the stream as it was before the first of them.
    if (keys.isEmpty) ungrouped = lens
    // Keys are compared by their bytes: what is equal must be spelt alike, as 0.0 and -0.0.
    val e = NormalizeFloatingNumbers.normalize(ungrouped.select(Seq(c.as(name))).exprs.head)
    if (!UnsafeRowUtils.isBinaryStable(e.dataType)) throw new Refused(s"$name has a collation (${e.dataType.sql}), under which equal texts have other bytes; group by lower($name) or another plain text")
    lens = lens.withColumn(name, e)
    if (e.dataType.isInstanceOf[MapType] || e.dataType.existsRecursively(_.isInstanceOf[MapType])) throw new Refused(s"$name is a map, and maps have no equality to group by")
    storable(new StructType().add(name, e.dataType))
    keys :+= name
  }

  /** Spark's state store writes its schema down in Avro, which has no word for some types. */
  private def storable(schema: StructType): Unit = schema.foreach { f =>
    try SchemaConverters.toAvroTypeWithDefaults(new StructType().add(f)) catch {
      case NonFatal(_) => throw new Refused(s"${f.dataType.sql} can't be kept in state; turn it into a number or a text first")
    }
  }

  def aggregate(name: String, c: Column): Unit = {
    storable(Fold.aggregates(lens, keys, Seq(name -> c)).schema)
    columns :+= Declared(name, Some(c), None)
  }

  def fold(name: String, fields: java.util.List[String], zero: java.util.List[Column], update: java.util.List[Column], merge: java.util.List[Column], result: Column): Unit = {
    val own = OwnFold(name, fields.asScala.toSeq, zero.asScala.toSeq, update.asScala.toSeq, Option(merge).map(_.asScala.toSeq), result)
    storable(Fold.own(lens, keyAttributes, own).schema)
    columns :+= Declared(name, None, Some(own))
  }

  private def keyAttributes: Seq[Attribute] = keys.map(k => lens.seen.find(_.name.equalsIgnoreCase(k)).get)

  /** All columns as one fold, in the order of declaration; aggregates share what they can. */
  private lazy val whole: Fold = {
    val aggs = columns.collect { case Declared(n, Some(c), _) => n -> c }
    val parts = (if (aggs.isEmpty) Nil else Seq(Fold.aggregates(lens, keys, aggs))) ++ columns.flatMap(_.own).map { f => Fold.own(lens, keyAttributes, f) }
    val all = Fold.distinctNames(parts.reduce(_ ++ _)).copy(keys = keyAttributes)
    all.copy(result = columns.map(c => all.result.find(_.name == c.name).get))
  }

  private def ordered = columns.exists(_.own.isDefined)
  private def gate(source: Seq[Attribute]) = Gate(source, conditions.filterNot { case Touch(c) => c.isEmpty; case _ => false }, keep, zone, origin)
  private def time: Option[Attribute] = lens.source.find(_.name == Names.Time)
  /** Whether TTL counts event time here; otherwise it counts the time of batches. */
  def hasTime: Boolean = time.isDefined

  /** Columns of the source that the table looks at. */
  private def reads: AttributeSet = {
    val fold = whole.reading(lens.source)(lens.inSource)
    AttributeSet(conditions ++ keyAttributes.map(lens.inSource)) ++ fold.references
  }
  def uses: java.util.List[String] = lens.source.filter(a => reads.contains(a) && !Names.hidden(a.name)).map(_.name).asJava

  /** The stream as a DataFrame: what the user sees, then its event time, if it has one, and rejections. */
  def rows(): DataFrame = {
    val own = time.map(t => AttributeReference(Names.Time, t.dataType)()) ++ Seq(AttributeReference(Names.Bad, StringType)())
    val attributes = lens.seen.map(a => AttributeReference(a.name, a.dataType)()) ++ own
    Dataset.ofRows(spark, Through(Segment(gate(lens.source), lens.exprs, time), attributes, plan))
  }

  private lazy val plan: LogicalPlan = { KernelStrategy.install(spark); df.asInstanceOf[Dataset[Row]].logicalPlan }

  /**
   * The table's changes and rejected rows, one row each: `_op`, the key, the columns, `_kf_bad`. With `only`, the source is asked for those columns alone,
   * which is what a columnar format is for.
   */
  def table(ttlMs: Long, only: java.util.List[String]): DataFrame = {
    val wanted = Option(only).map(_.asScala.toSet)
    val source = lens.source.filter(a => Names.hidden(a.name) || wanted.forall(_(a.name)))
    val positions = source.map(lens.source.indexOf(_))
    val from = if (wanted.isEmpty) plan else Project(positions.map(plan.output(_)), plan)
    val ttl = if (ttlMs > 0) Some(ttlMs) else None
    val timed = if (ttl.isDefined) time else None
    val fold = if (ttl.isEmpty) whole else whole ++ Fold.seen(timed)
    val keyExprs = keyAttributes.map(k => Alias(lens.inSource(k), k.name)())
    val keyOut = keyAttributes.map(k => AttributeReference(k.name, k.dataType)())
    val bad = AttributeReference(Names.Bad, StringType)()
    val (work, shuffled, folding) = if (ordered) asRows(fold, keyExprs, keyOut, source) else {
      val onSource = fold.reading(source)(lens.inSource)
      (Combine(gate(source), keyExprs, onSource, spark.sessionState.conf.getConfString("spark.keyfold.combineEntries", "131072").toInt), keyOut ++ fold.state.map(s => AttributeReference(s.name, s.dataType)()), onSource)
    }
    val input = shuffled :+ bad
    val mode = if (ttl.isEmpty) TimeMode.None() else if (timed.isEmpty) TimeMode.ProcessingTime() else TimeMode.EventTime()
    val processor = new Keyed(folding, input, ordered, ttl, keep, zone, origin.stream)
    val sent = Through(work, input, from)
    val gathered = if (ordered || !new Live(folding).flat) sent else Gather(folding, keyOut, sent)
    Dataset.ofRows(spark, Unwrap(changes(fold), stateful(gathered, keyOut, processor, mode)))
  }

  /** The columns of a table's changes. */
  private def changes(fold: Fold): Seq[Attribute] =
    (AttributeReference(Names.Op, StringType, nullable = false)() +: keyAttributes.map(k => AttributeReference(k.name, k.dataType)())) ++
      fold.result.map(r => AttributeReference(r.name, r.dataType)()) :+ AttributeReference(Names.Bad, StringType)()

  private def asRows(fold: Fold, keyExprs: Seq[Expression], keyOut: Seq[Attribute], source: Seq[Attribute]): (RowWork, Seq[Attribute], Fold) = {
    // Beside the user's columns: the time, which TTL reads even where select left it out, and the clock.
    val names = (lens.seen ++ lens.source).filter(fold.references.contains)
    val sent = names.map(lens.inSource)
    val out = names.map(r => AttributeReference(r.name, r.dataType)())
    val work = Single(gate(source), keyExprs, sent, time)
    val shuffled = keyOut ++ out ++ Seq(Names.Order, Names.Whole).zip(work.added).map { case (n, t) => AttributeReference(n, t)() }
    val renamed = AttributeMap(names.zip(out))
    val bad = AttributeReference(Names.Bad, StringType)()
    (work, shuffled, fold.reading(shuffled :+ bad)(_.transform { case a: AttributeReference if renamed.contains(a) => renamed(a) }))
  }

  private def stateful(child: LogicalPlan, keyOut: Seq[Attribute], processor: Keyed, mode: TimeMode): LogicalPlan = {
    val keySchema = StructType(keyOut.map(k => StructField(k.name, k.dataType)))
    val obj = AttributeReference("obj", ObjectType(classOf[InternalRow]), nullable = false)()
    new TransformWithState(WholeRow(), WholeRow(), keyOut, child.output, processor.asInstanceOf[StatefulProcessor[Any, Any, Any]], mode, OutputMode.Update(),
      Raw.encoder(keySchema).asInstanceOf[org.apache.spark.sql.catalyst.encoders.ExpressionEncoder[Any]], obj, child, false, keyOut, child.output, WholeRow(),
      LocalRelation(DataTypeUtils.toAttributes(keySchema)))
  }

  /** The table's rows as the state has them: `state` is what Spark's statestore source reads. */
  def rebuilt(state: DataFrame, ttlMs: Long): DataFrame = {
    KernelStrategy.install(spark)
    val fold = if (ttlMs > 0) whole ++ Fold.seen(None) else whole
    Dataset.ofRows(spark, Through(Rebuild(fold), changes(fold), state.select("key", "value").asInstanceOf[Dataset[Row]].logicalPlan))
  }

  /** The state's fields and which aggregate each group belongs to; part of what is written beside the state. */
  def stateSchema(ttlMs: Long): String = (if (ttlMs > 0) whole ++ Fold.seen(None) else whole).schema.json

  /** What the table, or the stream if there is no table, means, part by part, however it was spelt. */
  def meaning: java.util.Map[String, String] = {
    val canon = new Canon(lens)
    val m = new java.util.LinkedHashMap[String, String]()
    conditions.filterNot(_.isInstanceOf[Touch]).zipWithIndex.foreach { case (c, i) => m.put(s"where:$i", canon(c)) }
    if (columns.isEmpty) lens.seen.foreach(a => m.put(s"column:${a.name}", canon(lens.inSource(a))))
    else {
      keyAttributes.foreach(k => m.put(s"key:${k.name}", canon(lens.inSource(k))))
      columns.foreach(c => m.put(s"column:${c.name}", canon.column(c, keys)))
      lens.source.filter(reads.contains).foreach(a => m.put(s"reads:${a.name}", a.dataType.sql))
      // State is laid out in the order of declaration.
      m.put("keys", keys.mkString(", "))
      m.put("columns", columns.map(_.name).mkString(", "))
    }
    m
  }
}

object Api {
  /** `keep`: rows that can't be used are kept aside; `stream` and `csv`, the options of CSV files, may be null. */
  def pipeline(df: DataFrame, keep: Boolean, stream: String, csv: java.util.Map[String, String]): Pipeline =
    new Pipeline(df, keep, Origin(Option(stream), Option(csv).map(_.asScala.toMap)))
}
