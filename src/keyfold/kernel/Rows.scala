package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Where rows come from: the stream, if it is one alone, how its texts become rows (null where it has none), and whether it is of files. */
case class Origin(stream: Option[String], format: String, options: Map[String, String], files: Boolean)

/** What every row meets first: is it a row at all, and does it pass the conditions, in the order they were declared. */
case class Gate(source: Seq[Attribute], conditions: Seq[Expression], keep: Boolean, zone: String, origin: Origin) {
  def visible: Seq[Attribute] = source.filterNot(a => Names.hidden(a.name))
  def index(name: String): Int = source.indexWhere(_.name == name)
}

class LiveGate(gate: Gate, partition: Int) {
  val rejects = new SourceRejects(gate)
  private val tests = gate.conditions.map(new Testing(_, gate.source, partition)).toArray
  private val (bad, raw, control) = (gate.index(Names.Bad), gate.index(Names.Raw), gate.index(Names.Control))
  private val weight = gate.index(Names.Weight)
  /** Whether a row is taken back: one that can't be used was refused when it came, and is not refused again. */
  def takenBack(row: InternalRow): Boolean = weight >= 0 && row.getInt(weight) < 0

  /** Why the row was set aside before it came here, or null. */
  def setAside(row: InternalRow): UTF8String =
    if (bad >= 0 && !row.isNullAt(bad)) row.getUTF8String(bad)
    else if (raw >= 0 && !row.isNullAt(raw)) rejects.unparsed(row, row.getString(raw))
    else if (undecoded(row)) rejects.of("bytes that are no text in the file's encoding", rejects.text(row))
    else null

  // Spark puts U+FFFD in place of what it can't decode in a CSV file, and different texts become one.
  private val texts = if (gate.origin.format != "csv") Array.empty[Int] else gate.source.indices.filter(i => i != raw && gate.source(i).dataType.isInstanceOf[StringType]).toArray
  private def undecoded(row: InternalRow): Boolean = texts.exists(i => !row.isNullAt(i) && row.getUTF8String(i).contains(LiveGate.Replacement))

  def passes(row: InternalRow): Boolean = {
    if (control >= 0 && !row.isNullAt(control) && row.getBoolean(control)) return false
    var i = 0
    while (i < tests.length) { if (!tests(i)(row)) return false; i += 1 }
    true
  }
}

object LiveGate {
  val Replacement: UTF8String = UTF8String.fromString("\uFFFD")
}

/** where and select alone: rows in; out come the columns a user sees, what of keyfold's own goes with them (the event time), and rejections. */
case class Segment(gate: Gate, columns: Seq[Expression], own: Seq[Expression], timing: Timing) extends RowWork {
  override def at(watermark: Long): RowWork = copy(timing = timing.copy(watermark = watermark))

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val live = new LiveGate(gate, partition)
    val timed = new LiveTiming(timing, live.rejects)
    val why = AttributeReference("why", StringType)()
    val good = new Projecting(columns ++ own :+ Literal(null, StringType), gate.source)
    val bad = UnsafeProjection.create(columns.map(c => Literal(null, c.dataType)) ++ own :+ why, gate.source :+ why)
    val joined = new JoinedRow
    def aside(row: InternalRow, text: UTF8String): InternalRow = bad(joined(row, InternalRow(text)))
    rows.flatMap { row =>
      try {
        val text = live.setAside(row)
        val untimely = if (text == null) timed.wrong(row) else null
        if (text != null) Some(aside(row, text))
        else if (!live.passes(row)) None
        else if (untimely != null && live.takenBack(row)) None
        else if (untimely != null) Some(aside(row, live.rejects.of(untimely, live.rejects.text(row))))
        else {
          val late = timed.late(row)
          Some(if (late == null) good(row) else aside(row, late))
        }
      } catch { case e: RowError => if (live.takenBack(row)) None else Some(aside(row, live.rejects.of(row, e))) }
    }
  }
}

/**
 * The rows of a table, one by one: the key, what its folds read, an order stamp (event time, then input partition and position), and the whole row, so that
 * one on which a fold throws can be kept as it came; `bare` leaves that out.
 */
case class Single(gate: Gate, keys: Seq[Expression], reads: Seq[Expression], time: Option[Expression], timing: Option[Timing] = None, bare: Boolean = false) extends RowWork {
  override def at(watermark: Long): RowWork = copy(timing = timing.map(_.copy(watermark = watermark)))
  private def whole: Seq[Expression] = if (bare) Nil else Seq(CreateNamedStruct(gate.visible.flatMap(a => Seq(Literal(a.name), a))))
  def added: Seq[DataType] = Single.stampType +: whole.map(_.dataType)

  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val live = new LiveGate(gate, partition)
    val at = AttributeReference("at", LongType, nullable = false)()
    val stamp = CreateNamedStruct(Seq(Literal("time"), time.getOrElse(Literal(null, TimestampType)), Literal("arrival"), at))
    val carried = AttributeReference("carried", StringType)()
    val good = new Projecting(((keys ++ reads :+ stamp) ++ whole) :+ carried, gate.source :+ at :+ carried)
    val timed = timing.map(new LiveTiming(_, live.rejects)).orNull
    val lane = new Lane(keys.map(_.dataType), reads.map(_.dataType) ++ added)
    val key = new KeyCheck(keys)
    val position = new GenericInternalRow(2)
    val joined = new JoinedRow
    var n = 0L
    rows.flatMap { row =>
      n += 1
      try {
        val why = live.setAside(row)
        if (why != null) Some(lane(why))
        else if (!live.passes(row)) None
        else {
          val untimely = if (timed == null) null else timed.wrong(row)
          val text = if (timed == null || untimely != null) null else timed.late(row)
          position.update(0, Stamped.place(partition, n))
          position.update(1, if (text != null && timed.alone(row)) text else null)
          val r = good(joined(row, position))
          val wrong = if (untimely != null) untimely else key.wrong(r)
          if (wrong != null && live.takenBack(row)) None
          else if (wrong != null) Some(lane(live.rejects.of(wrong, live.rejects.text(row))))
          else if (text == null || timed.alone(row)) Some(r)
          else if (timed.open(row)) Seq(lane(text), r)
          else Some(lane(text))
        }
      } catch { case e: RowError => if (live.takenBack(row)) None else Some(lane(live.rejects.of(row, e))) }
    }
  }
}

object Single {
  val stampType: StructType = new StructType().add("time", TimestampType).add("arrival", LongType)
}
