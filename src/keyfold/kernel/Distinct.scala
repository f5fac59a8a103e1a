package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What comes through the shuffle to a step within a stream: the key, the row's columns, when it was, and the text of a row set aside. */
case class Passing(input: Seq[Attribute], keys: Int, columns: Int, timed: Boolean) {
  val (stamp, bad) = (keys + columns, keys + columns + 1)
  /** The row as the stream goes on with it: its columns, its time if it has one, and no rejection. */
  def good: Seq[Expression] = input.slice(keys, stamp) ++ (if (timed) Seq(GetStructField(input(stamp), 0)) else Nil) :+ Literal(null, StringType)
  def aside: Seq[Expression] = input.slice(keys, stamp).map(a => Literal(null, a.dataType)) ++ (if (timed) Seq(GetStructField(input(stamp), 0)) else Nil) :+ input(bad)
}

/**
 * Rows of which none with the same key was kept less than `within` before or after. Kept of a key are the times of the rows that went on, for as long as a row that is
 * not late can be near one of them. `removed`: rows that don't go on are kept aside whole; else they are counted.
 */
class Deduplicated(passing: Passing, within: Long, step: String, removed: Boolean, keeping: Keeping) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var state: ValueState[InternalRow] = _
  @transient private var arrival: Boolean = _
  @transient private lazy val good = UnsafeProjection.create(passing.good, passing.input)
  @transient private lazy val aside = UnsafeProjection.create(passing.aside, passing.input)
  @transient private lazy val rejects = new Rejects(passing.input.slice(passing.keys, passing.stamp), passing.input, keep = true, keeping.zone, keeping.stream)
  @transient private lazy val out = new ArrayBuffer[InternalRow](4)
  @transient private lazy val said = new GenericInternalRow(1)
  @transient private lazy val marked = {
    val text = AttributeReference("text", StringType)()
    UnsafeProjection.create(passing.aside.init :+ text, passing.input :+ text)
  }

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", Raw.encoder(new StructType().add("times", ArrayType(LongType, containsNull = false))), TTLConfig.NONE)
    arrival = time == TimeMode.ProcessingTime()
  }

  private def now(times: TimerValues): Long = if (arrival) times.getCurrentProcessingTimeInMs() * 1000 else Timing.micros(times.getCurrentWatermarkInMs())
  private def due(t: Long): Long = math.max(1L, Windowed.tick(t + within))

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(aside(_))
    val clock = now(times)
    val stored = state.get()
    out.clear()
    if (stored == null) {
      // Most keys come once.
      val first = rows.next().copy()
      if (!rows.hasNext) { out += good(first); keep(Array(at(first, clock)), null); return out.iterator }
      several(ArrayBuffer(first), rows, Array.empty, null, clock)
    } else several(new ArrayBuffer[InternalRow](2), rows, stored.getArray(0).toLongArray(), stored, clock)
    out.iterator
  }

  private def at(row: InternalRow, clock: Long): Long = if (arrival) clock else row.getStruct(passing.stamp, 2).getLong(0)

  private def several(batch: ArrayBuffer[InternalRow], rows: Iterator[InternalRow], before: Array[Long], stored: InternalRow, clock: Long): Unit = {
    rows.foreach(r => batch += r.copy())
    val all = batch.toArray
    if (all.length > 1) java.util.Arrays.sort(all, Folding.byStamp(passing.stamp))
    var kept = before
    var repeats = 0
    all.foreach { row =>
      val t = at(row, clock)
      if (!kept.exists(k => math.abs(t - k) < within)) { out += good(row).copy(); kept :+= t }
      else if (removed) out += mark(row, text(row))
      else repeats += 1
    }
    if (repeats > 0) out += mark(all(0), UTF8String.fromString(Tally.Mark + repeats))
    if (kept ne before) keep(kept.filter(t => clock == Timing.Unknown || t + within > clock || t == kept.max), stored)
  }

  private def mark(row: InternalRow, text: UTF8String): InternalRow = { said.update(0, text); marked(new JoinedRow(row, said)).copy() }
  private def text(row: InternalRow): UTF8String = UTF8String.fromString(Tally.json(step, 1).put("raw", rejects.text(row)).toString)

  private def keep(kept: Array[Long], stored: InternalRow): Unit = {
    if (stored == null) getHandle.registerTimer(due(kept.max))
    state.update(new GenericInternalRow(Array[Any](new GenericArrayData(kept))))
  }

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val stored = state.get()
    if (stored != null) {
      val left = stored.getArray(0).toLongArray().filter(_ + within > now(times))
      if (left.isEmpty) state.clear() else { getHandle.registerTimer(due(left.max)); state.update(new GenericInternalRow(Array[Any](new GenericArrayData(left)))) }
    }
    Iterator.empty
  }
}

/** How many rows a step has removed, one line for each partition instead of one for each key. */
case class Tally(step: String, bad: Int) extends RowWork {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = new Iterator[InternalRow] {
    private var (n, last, ready) = (0L, null: InternalRow, null: InternalRow)
    override def hasNext: Boolean = { if (ready == null) ready = advance(); ready != null }
    override def next(): InternalRow = { if (!hasNext) throw new NoSuchElementException; val r = ready; ready = null; r }
    private def advance(): InternalRow = {
      while (rows.hasNext) {
        val row = rows.next()
        if (row.isNullAt(bad) || !row.getUTF8String(bad).startsWith(Tally.mark)) return row
        n += row.getUTF8String(bad).toString.drop(1).toLong
        last = row.copy()
      }
      if (n == 0) null else {
        val text = UTF8String.fromString(Tally.json(step, n).toString)
        n = 0
        val r = new GenericInternalRow(bad + 1)
        r.update(bad, text)
        r
      }
    }
  }
}

object Tally {
  val Mark = "#"
  val mark: UTF8String = UTF8String.fromString(Mark)
  private val mapper = new com.fasterxml.jackson.databind.ObjectMapper()
  def json(step: String, n: Long): com.fasterxml.jackson.databind.node.ObjectNode = mapper.createObjectNode().put("removed", n).put("step", step)
}
