package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * A stream that meets a table, both by the table's key. What comes through the shuffle: the key, a `row` of the stream or a `value` of the table, which of them it is
 * (`side`: 0 a row, 1 a value, 2 a value that is gone), the row's time, the order of changes, the row's weight, and the text of a row set aside.
 *
 * Rows without a value go on alone (`rows`), values without a row do (`values`), or not. `waits`: how long a row waits for a value, in microseconds; `follow`: rows are
 * kept, for `keep` or for good, and are said anew when their value changes.
 */
case class Meeting(keys: Int, row: StructType, value: StructType, rows: Boolean, values: Boolean, waits: Option[Long], follow: Boolean, keep: Option[Long]) {
  val (rowAt, valueAt, side, time, order, weight, bad) = (keys, keys + 1, keys + 2, keys + 3, keys + 4, keys + 5, keys + 6)

  /** What a meeting says, of which `out` is made: the key, a row, a value as the stream goes on with it, the row's time, a weight and a text. */
  def said(in: Seq[Attribute], value: Attribute): Seq[Attribute] = in.take(keys) ++ Seq(in(rowAt), value, in(time), in(weight), in(bad))
}

object Meeting {
  /** The columns of `Meeting` behind the key. */
  val Columns: Seq[String] = Seq("row", "value", "side", "time", "order", "weight", "bad")

  /** The stream that a meeting makes of rows with the columns of `Meeting`; its event time, if it has one, has the mark `mark`. */
  def plan(spark: SparkSession, both: LogicalPlan, met: Met, names: Seq[String], mark: Metadata, clock: TimeMode): DataFrame = {
    val keys = both.output.take(met.m.keys)
    val columns = names.zip(met.out).map { case (n, e) => AttributeReference(n, e.dataType, nullable = true, if (n == Names.Time) mark else Metadata.empty)() }
    Dataset.ofRows(spark, Unwrap(columns, Api.stateful(Gather(None, keys, keys, both), keys, met, clock)))
  }
}

/** What all meetings share: saying what goes on, and holding rows of the stream. `out`: what goes on, over `said`, the attributes of what is said. */
abstract class Met(val m: Meeting, val out: Seq[Expression], said: Seq[Attribute]) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var waiting: ListState[InternalRow] = _
  @transient private lazy val project = UnsafeProjection.create(out, said)
  @transient private lazy val joined = new JoinedRow
  @transient private lazy val parts = new GenericInternalRow(5)
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient protected lazy val going = new ArrayBuffer[InternalRow](8)

  /** A row that is held, its time, and what else is to be known of it. */
  protected def heldSchema: StructType = new StructType().add("row", m.row).add("time", LongType)
  protected def initHeld(): Unit = waiting = getHandle.getListState[InternalRow]("rows", Raw.encoder(heldSchema), TTLConfig.NONE)

  protected def rowOf(r: InternalRow): InternalRow = r.getStruct(m.rowAt, m.row.length)
  protected def timeOf(r: InternalRow): Any = if (r.isNullAt(m.time)) null else r.getLong(m.time)

  /** A row, a value or both go on, unless what is alone is not asked for. */
  protected def say(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int): Unit =
    if ((value != null || m.rows) && (row != null || m.values)) emit(key, row, value, time, weight, null)

  private def emit(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int, bad: Any): Unit = {
    parts.update(0, row); parts.update(1, value); parts.update(2, time); parts.update(3, weight); parts.update(4, bad)
    going += project(joined(key, parts)).copy()
  }

  /** A row without a key meets no value. Those that the stream has set aside go through; the table has its own among its rejected rows. */
  protected def unkeyed(key: InternalRow, r: InternalRow): Unit = if (r.getInt(m.side) == 0) {
    if (r.isNullAt(m.bad)) say(key, rowOf(r), null, timeOf(r), r.getInt(m.weight))
    else emit(key, null, null, timeOf(r), 1, r.getUTF8String(m.bad))
  }

  protected def heldRow(h: InternalRow): InternalRow = h.getStruct(0, m.row.length)
  protected def heldTime(h: InternalRow): Any = if (h.isNullAt(1)) null else h.getLong(1)
  protected def anyHeld: Boolean = waiting.exists()
  protected def heldRows(): ArrayBuffer[InternalRow] = { val all = new ArrayBuffer[InternalRow]; waiting.get().foreach(h => all += h.copy()); all }
  protected def hold(h: InternalRow): Unit = waiting.appendValue(h)
  protected def holdOnly(all: ArrayBuffer[InternalRow]): Unit = if (all.isEmpty) waiting.clear() else waiting.put(all.toArray)
}
