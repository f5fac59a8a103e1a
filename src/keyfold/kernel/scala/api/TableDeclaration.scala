package org.apache.spark.sql.keyfold.api

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.keyfold.dedup.{DedupLayout, DedupProcessor, DuplicateCounter}
import org.apache.spark.sql.keyfold.enrich.{EnrichLayout, EnrichOperator, EnrichSettings, EventTimeEnrichProcessor}
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, ColumnScope, EvaluateAll, Fingerprint, InternalColumns, RefusedException, RetractableAggregates, UserFold, ValidKey}
import org.apache.spark.sql.keyfold.pattern.{Automaton, PatternDeclaration, PatternLayout, PatternProcessor}
import org.apache.spark.sql.keyfold.physical.{KernelStrategy, MergePartials, PartitionStep, PartitionStepNode, StatefulOperator, Unwrap, WatermarkPropagation}
import org.apache.spark.sql.keyfold.rows.{BehindWatermark, KeyedRows, LatenessCheck, NeverLate, PartialAggregation, RowGate, RowOrigin, SideOutput, SideOutputSettings, StatelessStep}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, RecomputedAggregateProcessor, RunningAggregateProcessor, ShuffledRowLayout, StateToRows, TimerBuckets, TopN, TopNProcessor}
import org.apache.spark.sql.keyfold.window.{GapPanes, InstantPanes, PaneOf, RollingWindow, RollingWindowProcessor, SessionWindow, SessionWindowProcessor, TimeWindow, TimeWindowProcessor, WindowEmission, WindowGrid, WindowKind}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Row}

/** A column of a table as it was declared: an aggregate or a fold of the user's own. */
case class DeclaredColumn(name: String, aggregate: Option[Column], own: Option[UserFold]) {
  def fingerprint(of: Fingerprint, keys: Seq[String]): String =
    aggregate.fold(of.fold(own.get, keys))(of.aggregate(name, _, keys))
}

/**
 * What Python calls. One object per table: each method takes one thing the user declared and analyzes it at once, so that what is wrong with it is known by
 * name; `table` and `rows` then build the plan.
 */
class TableDeclaration(df: DataFrame, keep: Boolean, origin: RowOrigin) {
  private val spark = df.sparkSession.asInstanceOf[SparkSession]
  private val zone = spark.sessionState.conf.sessionLocalTimeZone
  private var lens = ColumnScope.of(spark, df.schema, InternalColumns.hidden)
  private var conditions = Vector.empty[Expression]
  private var keys = Vector.empty[String]
  private var ungrouped: ColumnScope = lens
  private var columns = Vector.empty[DeclaredColumn]
  private var window: Option[WindowKind] = None
  private var closing: Option[WindowEmission] = None
  private var gapGiven: Option[Expression] = None
  private var ranking: Option[TopN] = None
  private var shown = Vector.empty[(String, Expression)]
  private var previous = false
  private var pattern: Option[PatternDeclaration] = None

  def where(c: Column): Unit = conditions :+= lens.inSource(lens.where(c))

  def select(cs: java.util.List[Column]): Unit = {
    lens = lens.select(cs.asScala.toSeq)
    // A column that nothing reads is still a column of the row: one that can't be computed makes the row bad, in every table alike.
    conditions :+= EvaluateAll(lens.exprs.filterNot(e => e.isInstanceOf[Attribute] || e.foldable))
  }

  def key(name: String, c: Column): Unit = {
    // All keys see the stream as it was before the first of them.
    if (keys.isEmpty) ungrouped = lens
    // Keys are compared by their bytes: what is equal must be spelt alike, as 0.0 and -0.0.
    val e = NormalizeFloatingNumbers.normalize(ungrouped.select(Seq(c.as(name))).exprs.head)
    if (!UnsafeRowUtils.isBinaryStable(e.dataType)) throw new RefusedException(s"$name has a collation (${e.dataType.sql}), under which equal texts have other bytes; group by lower($name) or another plain text")
    lens = lens.withColumn(name, e)
    if (e.dataType.isInstanceOf[MapType] || e.dataType.existsRecursively(_.isInstanceOf[MapType])) throw new RefusedException(s"$name is a map, and maps have no equality to group by")
    storable(new StructType().add(name, e.dataType))
    keys :+= name
  }

  /** From here on rows have a key, or are rejected. */
  def keyed(): Unit = conditions ++= keyAttributes.map(k => ValidKey(lens.inSource(k), k.name))

  private def storable(schema: StructType): Unit = schema.find(f => !ColumnScope.storable(f.dataType)).foreach { f =>
    throw new RefusedException(s"${f.dataType.sql} can't be kept in state; turn it into a number or a text first")
  }

  def aggregate(name: String, c: Column): Unit = {
    storable(AggregateFold.aggregates(lens, keys, Seq(name -> c)).schema)
    columns :+= DeclaredColumn(name, Some(c), None)
  }

  def fold(name: String, fields: java.util.List[String], zero: java.util.List[Column], update: java.util.List[Column], merge: java.util.List[Column], retract: java.util.List[Column], result: Column): Unit = {
    def some(parts: java.util.List[Column]) = Option(parts).map(_.asScala.toSeq)
    val own = UserFold(name, fields.asScala.toSeq, zero.asScala.toSeq, update.asScala.toSeq, some(merge), some(retract), result)
    storable(AggregateFold.own(lens, keyAttributes, own, weight).schema)
    columns :+= DeclaredColumn(name, None, Some(own))
  }

  /** Whole rows: the first `n` by what is written after ORDER BY in SQL; without an order, the newest. */
  def top(n: Int, by: String): Unit = {
    val orders = Option(by).map(lens.order).getOrElse(Nil)
    ranking = Some(TopN(n, orders))
  }
  /** A column of the rows that are shown; without any, all that the stream has beside the key and the operation of a change. */
  def column(name: String, c: Column): Unit = {
    val e = lens.select(Seq(c.as(name))).exprs.head
    storable(new StructType().add(name, e.dataType))
    shown :+= name -> e
  }
  private lazy val columnsShown: Seq[(String, Expression)] =
    if (shown.nonEmpty) shown else lens.seen.zip(lens.exprs).collect { case (a, e) if a.name != InternalColumns.Op && !keys.exists(_.equalsIgnoreCase(a.name)) => a.name -> e }
  /** The table's rows are matches of a pattern, as plan/pattern/automaton.py writes it; all else about it is told to what comes back. */
  def sequences(automaton: String): PatternDeclaration = { pattern = Some(new PatternDeclaration(lens, keyAttributes, time.isDefined, Automaton.parse(automaton))); pattern.get }
  /** Readers are told, with each change, what the row was before. */
  def before(): Unit = previous = true

  private def keyAttributes: Seq[Attribute] = keys.map(k => lens.seen.find(_.name.equalsIgnoreCase(k)).get)

  /** All columns as one fold, in the order of declaration; aggregates share what they can. */
  private lazy val whole: AggregateFold = if (pattern.isDefined) pattern.get.fold else if (ranking.isDefined) AggregateFold.newest(columnsShown, time).copy(keys = keyAttributes) else {
    val aggs = columns.collect { case DeclaredColumn(n, Some(c), _) => n -> c }
    val weighed = weight.filterNot(_ => refolds)
    val parts = (if (aggs.isEmpty) Nil else Seq(AggregateFold.aggregates(lens, keys, aggs, weighed))) ++ columns.flatMap(_.own).map { f => AggregateFold.own(lens, keyAttributes, f, weighed) }
    val all = AggregateFold.distinctNames(parts.reduce(_ ++ _)).copy(keys = keyAttributes)
    all.copy(result = columns.map(c => all.result.find(_.name == c.name).get))
  }

  private def ordered = columns.exists(_.own.isDefined) || ranking.isDefined
  /** Whether rows may be taken back from an aggregate that can't give them back. */
  private lazy val refolds: Boolean = weight.isDefined && columns.exists(_.aggregate.exists(c =>
    !ColumnScope.aggregate(lens, keys, Seq("x" -> c)).aggregateExpressions.forall(RetractableAggregates.can)))
  /** Whether a table keeps rows and shows some: one that shows the newest alone, and takes nothing back, keeps no more than that. */
  private def ranks = ranking.exists(r => weight.isDefined || r.orders.nonEmpty)
  private def gate(source: Seq[Attribute]) = RowGate(source, conditions.filterNot { case EvaluateAll(c) => c.isEmpty; case _ => false }, keep, zone, origin)
  private def time: Option[Attribute] = lens.source.find(_.name == InternalColumns.Time)
  private def weight: Option[Attribute] = lens.source.find(_.name == InternalColumns.Weight)
  /** Whether TTL counts event time here; otherwise it counts the time of batches. */
  def hasTime: Boolean = time.isDefined

  /** Columns of the source that the table looks at. */
  private def reads: AttributeSet = if (pattern.isDefined) AttributeSet(conditions ++ keyAttributes.map(lens.inSource) ++ pattern.get.reads) else {
    val fold = all(None).reading(lens.source)(lens.inSource)
    val ordering = ranking.toSeq.flatMap(_.orders).map(o => lens.inSource(o.child))
    AttributeSet(conditions ++ keyAttributes.map(lens.inSource) ++ ordering) ++ fold.references
  }
  def uses: Array[String] = lens.source.filter(a => reads.contains(a) && !InternalColumns.hidden(a.name)).map(_.name).toArray

  /**
   * The stream as a DataFrame: what the user sees, then its event time and weight, if it has them, and rejections. `late`: "below" the watermark, or "upto" it,
   * rows are set aside, since the operator that they go to has no more use for them; "" takes all.
   */
  def rows(late: String): DataFrame = {
    val own = time ++ weight
    val kept = own.map(a => AttributeReference(a.name, a.dataType, a.nullable, a.metadata)()).toSeq :+ SideOutput.attribute()
    val attributes = lens.seen.map(a => AttributeReference(a.name, a.dataType)()) ++ kept
    val bound = if (late.isEmpty || time.isEmpty) None else Some(BehindWatermark(inclusive = late == "upto"))
    Dataset.ofRows(spark, PartitionStepNode(StatelessStep(gate(lens.source), lens.exprs, own.toSeq, LatenessCheck(bound, lens.source, time)), attributes, plan))
  }

  /** The stream without repeats of the columns; as `rows` gives it. */
  def distinct(names: java.util.List[String], withinMs: Long, removed: Boolean, step: String): DataFrame = {
    names.asScala.foreach(n => key(n, org.apache.spark.sql.functions.col(s"`$n`")))
    val keyExprs = keyAttributes.map(k => Alias(lens.inSource(k), k.name)())
    val keyOut = keyAttributes.map(k => AttributeReference(k.name, k.dataType)())
    val bucket = Alias(TimerBuckets.of(keyExprs.map(_.child)), InternalColumns.Pane)()
    val work = KeyedRows(gate(lens.source), bucket +: keyExprs, ungrouped.exprs, time, Some(LatenessCheck(time.map(_ => BehindWatermark(inclusive = false)), lens.source, time)), bare = true)
    val columns = ungrouped.seen.map(a => AttributeReference(a.name, a.dataType)())
    val bucketOut = Seq(AttributeReference(bucket.name, bucket.dataType)())
    val input = bucketOut ++ keyOut ++ columns :+ AttributeReference(InternalColumns.Order, work.added.head)() :+ SideOutput.attribute()
    val passing = DedupLayout(input, keyOut.length, columns.length, time.isDefined)
    val processor = new DedupProcessor(passing, withinMs * 1000, step, removed, SideOutputSettings(keep, zone, origin.stream))
    val clock = if (time.isDefined) TimeMode.EventTime() else TimeMode.ProcessingTime()
    val out = columns.map(a => AttributeReference(a.name, a.dataType)()) ++ time.map(t => AttributeReference(t.name, t.dataType, t.nullable, t.metadata)()) :+ SideOutput.attribute()
    val passed = Unwrap(out, stateful(PartitionStepNode(work, input, plan), bucketOut, processor, clock))
    Dataset.ofRows(spark, PartitionStepNode(DuplicateCounter(step, out.length - 1), out.map(a => a.newInstance()), passed))
  }

  /**
   * A stream that meets this table as it was at the time of each row. `asking`: key, row and time of the stream's rows, and the text of those set aside; other
   * arguments are those of `KernelApi.meet`.
   */
  def asOf(asking: DataFrame, without: Boolean, waitMs: Long, ttlMs: Long, names: java.util.List[String]): DataFrame = {
    val keyOut = keyAttributes.map(k => AttributeReference(k.name, k.dataType)())
    val keyExprs = keyAttributes.map(k => Alias(lens.inSource(k), k.name)())
    val (work, input, prefix, fold) = single(whole, keyExprs, keyOut, lens.source, Some(LatenessCheck(None, lens.source, time)))
    val reads = input.slice(prefix, input.length - 3)
    val from = asking.asInstanceOf[Dataset[Row]].logicalPlan
    val (row, value) = (from.output(prefix).dataType.asInstanceOf[StructType], StructType(reads.map(a => StructField(a.name, a.dataType))))
    val m = EnrichLayout(prefix, row, value)
    val settings = EnrichSettings(without, unmatchedValues = false, Some(waitMs * 1000).filter(_ >= 0), follow = false, None)
    val (asks, tells) = (asked(from, m), told(PartitionStepNode(work, input, plan), reads, m))
    val both = StatefulOperator.withoutEventTimeMetadata(Dataset.ofRows(spark, Union(Seq(asks, tells))).queryExecution.analyzed)
    val folding = fold.copy(previous = true, in = reads)
    val said = m.joinedRow(both.output, AttributeReference("value", folding.seen)())
    val fields = row.indices.map(GetStructField(said(m.rowIndex), _)) ++ folding.result.indices.map(i => GetStructField(said(m.valueIndex), i + 1))
    val met = new EventTimeEnrichProcessor(m, settings, folding, Some(ttlMs).filter(_ > 0), fields ++ Seq(both.output(m.timeIndex), both.output(m.sideOutputIndex)), said)
    EnrichOperator(spark, both, met, names.asScala.toSeq ++ Seq(InternalColumns.Time, InternalColumns.SideOutput), from.output(prefix + 1).metadata, TimeMode.EventTime())
  }

  /** Rows of the stream and of the table, as they come to a meeting. */
  private def asked(rows: LogicalPlan, m: EnrichLayout): LogicalPlan = {
    val Seq(row, time, bad) = rows.output.drop(m.keys)
    meets(rows, m, Seq(row, Literal(null, m.value), Literal(EnrichLayout.StreamRow), time, Literal(0L), Literal(1), bad))
  }
  private def told(rows: LogicalPlan, reads: Seq[Attribute], m: EnrichLayout): LogicalPlan = {
    val (stamp, value) = (rows.output(rows.output.length - 3), CreateNamedStruct(reads.flatMap(a => Seq(Literal(a.name), a))))
    meets(rows, m, Seq(Literal(null, m.row), value, Literal(EnrichLayout.TableValue), GetStructField(stamp, 0), GetStructField(stamp, 1), Literal(1), rows.output.last))
  }
  private def meets(rows: LogicalPlan, m: EnrichLayout, columns: Seq[Expression]): LogicalPlan =
    Project(rows.output.take(m.keys) ++ EnrichLayout.Columns.zip(columns).map { case (n, e) => Alias(e, n)() }, rows)

  private lazy val plan: LogicalPlan = { KernelStrategy.install(spark); df.asInstanceOf[Dataset[Row]].logicalPlan }

  /**
   * The table's changes and rejected rows, one row each: `_op`, the key, the columns, `_kf_side`. With `only`, the source is asked for those columns alone,
   * which is what a columnar format is for.
   */
  def table(ttlMs: Long, only: java.util.List[String]): DataFrame = {
    val wanted = Option(only).map(_.asScala.toSet)
    val source = lens.source.filter(a => InternalColumns.hidden(a.name) || wanted.forall(_(a.name)))
    val positions = source.map(lens.source.indexOf(_))
    val from = if (wanted.isEmpty) plan else Project(positions.map(plan.output(_)), plan)
    val keyOut = keyAttributes.map(k => AttributeReference(k.name, k.dataType)())
    val built = processor(source, keyOut, if (ttlMs > 0) Some(ttlMs) else None)
    val sent = PartitionStepNode(built.work, built.input, from)
    val gathered = built.gather.fold(sent: LogicalPlan)(MergePartials(_, built.by, built.input.take(built.prefix), sent))
    Dataset.ofRows(spark, WatermarkPropagation(Unwrap(changes(built.folding.fold), stateful(gathered, built.by, built.folding, built.mode))))
  }

  /**
   * What a table's rows go through before the shuffle, what comes through it, by what they are put together, and what they meet there; `gather`: rows of a key are put
   * together without a sort, and folded.
   */
  private case class Built(work: PartitionStep, input: Seq[Attribute], prefix: Int, by: Seq[Attribute], folding: KeyedProcessor, mode: TimeMode, gather: Option[Option[AggregateFold]])

  private def processor(source: Seq[Attribute], keyOut: Seq[Attribute], ttl: Option[Long]): Built = {
    val keyExprs = keyAttributes.map(k => Alias(lens.inSource(k), k.name)())
    val clock = if (ttl.isEmpty && closing.isEmpty) TimeMode.None() else if (time.isEmpty) TimeMode.ProcessingTime() else TimeMode.EventTime()
    val keeping = SideOutputSettings(keep, zone, origin.stream)
    if (pattern.isDefined) return matched(pattern.get, source, keyExprs, keyOut, keeping)
    // Also where no window asks for it: a row whose time can't be is rejected in every table alike.
    val timing = if (window.isEmpty && time.isEmpty) None else Some(LatenessCheck(window.map(_.lateness), source, time))
    // The cell of time that rows of a key are folded in before the shuffle, if there are cells.
    val cells = window.collect { case TimeWindow(g) => g; case SessionWindow(c, _) => c }
    val fold = all(ttl)
    if (ranks || refolds) return held(source, keyExprs, keyOut, keeping, ttl, clock, timing)
    val asRows = ordered || window.exists(_.isInstanceOf[RollingWindow])
    val (work, input, prefix, folding) = if (asRows) single(fold, keyExprs, keyOut, source, timing) else {
      val onSource = fold.reading(source)(lens.inSource)
      val entries = spark.sessionState.conf.getConfString("spark.keyfold.combineEntries", "131072").toInt
      val group = keyExprs ++ cells.map(c => Alias(PaneOf(time.get, c), InternalColumns.Pane)())
      val prefix = keyOut ++ cells.map(_ => AttributeReference(InternalColumns.Pane, LongType)())
      (PartialAggregation(gate(source), group, onSource, entries, timing), prefix ++ fold.state.map(s => AttributeReference(s.name, s.dataType)()) :+ SideOutput.attribute(), prefix.length, onSource)
    }
    val arriving = ShuffledRowLayout(input, prefix, asRows)
    val stateful = window match {
      case None => new RunningAggregateProcessor(folding, arriving, keeping, ttl)
      case Some(TimeWindow(g)) => new TimeWindowProcessor(folding, arriving, keeping, closing.get, g)
      case Some(_: SessionWindow) => new SessionWindowProcessor(folding, arriving, keeping, closing.get)
      case Some(r: RollingWindow) =>
        val kept = AttributeReference(InternalColumns.Time, LongType)() +: input.slice(prefix, arriving.stamp)
        new RollingWindowProcessor(if (r.pane.isDefined) folding else folding.reading(kept)(identity), arriving, keeping, r, kept, ttl)
    }
    Built(work, input, prefix, keyOut, stateful, clock, Some(Some(folding)).filter(_ => !asRows && folding.flat))
  }

  /** A table that keeps the rows of a key: what it shows of them or folds, what it orders them by, and their weight come through the shuffle. */
  private def held(source: Seq[Attribute], keyExprs: Seq[Expression], keyOut: Seq[Attribute], keeping: SideOutputSettings, ttl: Option[Long], clock: TimeMode, timing: Option[LatenessCheck]): Built = {
    val names = (lens.seen ++ lens.source).filter(whole.references.contains)
    val orders = ranking.toSeq.flatMap(_.orders)
    val sent = if (refolds) names.map(n => n.name -> lens.inSource(n)) else columnsShown ++ orders.zipWithIndex.map { case (o, i) => s"_order$i" -> lens.inSource(o.child) }
    val work = KeyedRows(gate(source), keyExprs, sent.map(_._2) ++ weight, time, timing)
    val out = sent.map { case (n, e) => AttributeReference(n, e.dataType)() }
    val input = keyOut ++ out ++ weight.map(_.newInstance()) ++ Seq(InternalColumns.Order, InternalColumns.Whole).zip(work.added).map { case (n, t) => AttributeReference(n, t)() } :+ SideOutput.attribute()
    val arriving = ShuffledRowLayout(input, keyOut.length, ordered = true)
    val weightAt = if (weight.isDefined) arriving.stamp - 1 else -1
    val kept = AttributeReference(InternalColumns.Newest, LongType)() +: out
    val folding = if (refolds) {
      val renamed = AttributeMap(names.zip(out))
      new RecomputedAggregateProcessor(whole.reading(kept)(_.transform { case a: AttributeReference if renamed.contains(a) => renamed(a) }).copy(previous = previous), arriving, keeping, kept, weightAt)
    } else {
      val ranked = orders.zip(out.drop(columnsShown.length)).map { case (o, a) => o.copy(child = a, sameOrderExpressions = Nil) }
      val rank = if (orders.isEmpty) Nil else Seq(AttributeReference(InternalColumns.Rank, IntegerType, nullable = false)())
      val rows = AggregateFold(kept, keyAttributes ++ rank, kept, kept.map(_.newInstance()), kept.map(a => Literal(null, a.dataType)), kept, None, out.take(columnsShown.length), Nil, previous)
      new TopNProcessor(rows, arriving, keeping, kept, weightAt, ttl, ranking.get.copy(orders = ranked))
    }
    Built(work, input, keyOut.length, keyOut, folding, clock, None)
  }

  /** Matches of a pattern: what is kept of a row and which conditions are true for it come through the shuffle. */
  private def matched(p: PatternDeclaration, source: Seq[Attribute], keyExprs: Seq[Expression], keyOut: Seq[Attribute], keeping: SideOutputSettings): Built = {
    val timing = LatenessCheck(time.map(_ => if (p.settings.eventOrder) BehindWatermark(inclusive = false) else NeverLate), source, time)
    val all = gate(source)
    // A row without a key is rejected, whatever it says.
    val passes = p.relevant.map(r => keyAttributes.map(k => IsNull(lens.inSource(k))).foldLeft(r)(Or(_, _)))
    val bucket = Alias(TimerBuckets.of(keyExprs), InternalColumns.Pane)()
    val work = KeyedRows(all.copy(conditions = all.conditions ++ passes), bucket +: keyExprs, Seq(p.storedRow, p.mask), time, Some(timing), bare = true)
    val layout = PatternLayout(AttributeReference(bucket.name, bucket.dataType)(), keyOut, p.storedRow.dataType)
    val folding = new PatternProcessor(whole.copy(previous = previous), layout, keeping, p.settings)
    Built(work, layout.input, layout.shuffled.prefix, Seq(layout.bucket), folding, if (time.isEmpty) TimeMode.ProcessingTime() else TimeMode.EventTime(), Some(None))
  }

  /** The whole fold, with what TTL, windows and rows that may be taken back need beside the columns; a window's bounds are part of its key. */
  private def all(ttl: Option[Long]): AggregateFold = allOf(ttl).copy(previous = previous)
  private def allOf(ttl: Option[Long]): AggregateFold = window match {
    case None => Seq(ttl.map(_ => AggregateFold.seen(time)), weight.filterNot(_ => refolds || ranking.isDefined).map(AggregateFold.left)).flatten.foldLeft(whole)(_ ++ _)
    case Some(TimeWindow(g)) => bounded(whole ++ AggregateFold.start(PaneOf(time.get, g)))
    case Some(s: SessionWindow) => bounded(whole ++ AggregateFold.start(UnixMicros(time.get)) ++ AggregateFold.end(s.end))
    case Some(RollingWindow(_, _, Some(width))) => whole ++ AggregateFold.start(PaneOf(time.get, WindowGrid(width, width, 0, None)))
    case _ => whole
  }
  private def bounded(f: AggregateFold): AggregateFold = f.copy(keys = f.keys ++ Seq("window_start", "window_end").map(n => AttributeReference(n, TimestampType, nullable = false)()))

  /** Tumbling and sliding windows; lengths in milliseconds, `zone` may be null. */
  def sliding(size: Long, every: Long, offset: Long, zone: String): Unit = {
    try Option(zone).foreach(java.time.ZoneId.of) catch { case NonFatal(_) => throw new RefusedException(s"this Java knows no time zone $zone; take one that it knows, or a newer Java") }
    window = Some(TimeWindow(WindowGrid(timed(size), timed(every), timed(offset), Option(zone))))
  }
  def session(gap: Long): Unit = window = Some(SessionWindow(GapPanes(timed(gap)), Add(UnixMicros(time.get), Literal(gap * 1000))))
  def sessionBy(gap: Column): Unit = {
    timed(0)
    val e = lens.select(Seq(gap.as("gap"))).exprs.head
    val length = e.dataType match {
      case _: DayTimeIntervalType | CalendarIntervalType => e
      case _: StringType => Cast(e, CalendarIntervalType)
      case other => throw new RefusedException(s"the gap of a session is an interval or a text such as '5 minutes', not ${other.sql}")
    }
    // In UTC, where a day has 24 hours.
    window = Some(SessionWindow(InstantPanes, UnixMicros(TimestampAddInterval(time.get, length, Some("UTC")))))
    gapGiven = Some(e)
  }
  /** `rows` or `span` is zero, `pane` may be. */
  def recent(span: Long, rows: Int, pane: Long): Unit = {
    if (span > 0) timed(0)
    window = Some(RollingWindow(Some(span * 1000).filter(_ > 0), Some(rows).filter(_ > 0), Some(pane * 1000).filter(_ > 0)))
  }
  /** When windows speak, and how long closed ones are kept; zero for not at all. */
  def closes(changes: Boolean, keep: Long): Unit = closing = Some(WindowEmission(changes, Some(keep * 1000).filter(_ > 0)))

  private def timed(ms: Long): Long =
    if (time.isEmpty) throw new RefusedException("windows need an event time, and the stream has none here: a transform left it out, or a stream of the union has none") else ms * 1000

  private def changes(fold: AggregateFold): Seq[Attribute] =
    (AttributeReference(InternalColumns.Op, StringType, nullable = false)() +: fold.keys.map(k => AttributeReference(k.name, k.dataType)())) ++
      fold.result.map(r => AttributeReference(r.name, r.dataType)()) ++ Seq(AttributeReference(InternalColumns.Prev, fold.seen)()).filter(_ => fold.previous) :+
      SideOutput.attribute()

  /** The rows one by one: for folds that must see them in order, and for what keeps rows. */
  private def single(fold: AggregateFold, keyExprs: Seq[Expression], keyOut: Seq[Attribute], source: Seq[Attribute], timing: Option[LatenessCheck]): (PartitionStep, Seq[Attribute], Int, AggregateFold) = {
    // Beside the user's columns: the time, which TTL reads even where select left it out, and the clock.
    val names = (lens.seen ++ lens.source).filter(fold.references.contains)
    val sent = names.map(lens.inSource)
    val out = names.map(r => AttributeReference(r.name, r.dataType)())
    val work = KeyedRows(gate(source), keyExprs, sent, time, timing)
    val added = Seq(InternalColumns.Order, InternalColumns.Whole).zip(work.added).map { case (n, t) => AttributeReference(n, t)() }
    val input = keyOut ++ out ++ added :+ SideOutput.attribute()
    val renamed = AttributeMap(names.zip(out))
    (work, input, keyOut.length, fold.reading(input)(_.transform { case a: AttributeReference if renamed.contains(a) => renamed(a) }))
  }

  private def stateful(child: LogicalPlan, keyOut: Seq[Attribute], processor: StatefulProcessor[_, _, _], mode: TimeMode): LogicalPlan = StatefulOperator(child, keyOut, processor, mode)

  /** The table's rows as the state has them: `state` is what Spark's statestore source reads of the table's state, or of the windows that it keeps. */
  def rebuilt(state: DataFrame, ttlMs: Long, kept: Boolean): DataFrame = {
    KernelStrategy.install(spark)
    val folding = stateOf(ttlMs)
    val read = state.select("key", if (kept) "user_map_value" else "value").asInstanceOf[Dataset[Row]].logicalPlan
    Dataset.ofRows(spark, PartitionStepNode(StateToRows(folding, keys.length, kept), changes(folding.fold), read))
  }

  /** The columns of the table's changes. */
  def schema(ttlMs: Long): String = StructType(changes(stateOf(ttlMs).fold).init.map(a => StructField(a.name, a.dataType))).json

  /** The state's fields and which aggregate each group belongs to; part of what is written beside the state. */
  def stateSchema(ttlMs: Long): String = stateOf(ttlMs).stateSchema.json
  private def stateOf(ttlMs: Long): KeyedProcessor = processor(lens.source, keyAttributes.map(k => AttributeReference(k.name, k.dataType)()), Some(ttlMs).filter(_ > 0)).folding

  /** What the table, or the stream if there is no table, means, part by part, however it was spelt: an object of JSON. */
  def meaning: String = {
    val canon = new Fingerprint(lens)
    val m = new java.util.LinkedHashMap[String, String]()
    conditions.filterNot(c => c.isInstanceOf[EvaluateAll] || c.isInstanceOf[ValidKey]).zipWithIndex.foreach { case (c, i) => m.put(s"where:$i", canon(c)) }
    if (keys.isEmpty || (columns.isEmpty && ranking.isEmpty && pattern.isEmpty)) lens.seen.foreach(a => m.put(s"column:${a.name}", canon(lens.inSource(a))))
    else {
      keyAttributes.foreach(k => m.put(s"key:${k.name}", canon(lens.inSource(k))))
      columns.foreach(c => m.put(s"column:${c.name}", c.fingerprint(canon, keys)))
      if (ranking.isDefined) columnsShown.foreach { case (n, e) => m.put(s"column:$n", canon(e)) }
      ranking.foreach(r => m.put("top", if (r.orders.isEmpty) "newest" else s"${r.n} by ${r.orders.map(o => s"${canon(o.child)} ${o.direction.sql} ${o.nullOrdering.sql}").mkString(", ")}"))
      gapGiven.foreach(g => m.put("gap", canon(g)))
      pattern.foreach(_.meaning(canon).foreach { case (part, text) => m.put(part, text) })
      lens.source.filter(a => reads.contains(a) && !InternalColumns.hidden(a.name)).foreach(a => m.put(s"reads:${a.name}", a.dataType.sql))
      // State is laid out in the order of declaration.
      m.put("keys", keys.mkString(", "))
      if (pattern.isEmpty) m.put("columns", (columns.map(_.name) ++ columnsShown.map(_._1).filter(_ => ranking.isDefined)).mkString(", "))
    }
    KernelJson.mapper.writeValueAsString(m)
  }
}
