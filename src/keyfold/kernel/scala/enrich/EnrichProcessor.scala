package org.apache.spark.sql.keyfold.enrich

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.InternalRowEncoder
import org.apache.spark.sql.keyfold.rows.SideOutput
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/** What all meetings share: saying what goes on, and holding rows of the stream. `out`: what goes on, over `said`, the attributes of what is said. */
abstract class EnrichProcessor(val m: EnrichLayout, val out: Seq[Expression], said: Seq[Attribute]) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var waiting: ListState[InternalRow] = _
  @transient private lazy val project = UnsafeProjection.create(out, said)
  @transient private lazy val joined = new JoinedRow
  @transient private lazy val parts = new GenericInternalRow(5)
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient protected lazy val going = new ArrayBuffer[InternalRow](8)

  /** A row that is held, its time, and what else is to be known of it. */
  protected def heldSchema: StructType = new StructType().add("row", m.row).add("time", LongType)
  protected def initHeld(): Unit = waiting = getHandle.getListState[InternalRow]("rows", InternalRowEncoder.encoder(heldSchema), TTLConfig.NONE)

  protected def rowOf(r: InternalRow): InternalRow = r.getStruct(m.rowAt, m.row.length)
  protected def timeOf(r: InternalRow): Any = if (r.isNullAt(m.time)) null else r.getLong(m.time)

  /** A row, a value or both go on, unless what is alone is not asked for. */
  protected def say(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int): Unit =
    if ((value != null || m.rows) && (row != null || m.values)) emit(key, row, value, time, weight, null)

  private def emit(key: InternalRow, row: InternalRow, value: InternalRow, time: Any, weight: Int, sideOutput: InternalRow): Unit = {
    parts.update(0, row); parts.update(1, value); parts.update(2, time); parts.update(3, weight); parts.update(4, sideOutput)
    going += project(joined(key, parts)).copy()
  }

  /** A row without a key meets no value. Those that the stream has set aside go through; the table has its own among its rejected rows. */
  protected def unkeyed(key: InternalRow, r: InternalRow): Unit = if (r.getInt(m.side) == 0) {
    if (r.isNullAt(m.sideOutput)) say(key, rowOf(r), null, timeOf(r), r.getInt(m.weight))
    else emit(key, null, null, timeOf(r), 1, SideOutput.of(r, m.sideOutput))
  }

  protected def heldRow(h: InternalRow): InternalRow = h.getStruct(0, m.row.length)
  protected def heldTime(h: InternalRow): Any = if (h.isNullAt(1)) null else h.getLong(1)
  protected def anyHeld: Boolean = waiting.exists()
  protected def heldRows(): ArrayBuffer[InternalRow] = { val all = new ArrayBuffer[InternalRow]; waiting.get().foreach(h => all += h.copy()); all }
  protected def hold(h: InternalRow): Unit = waiting.appendValue(h)
  protected def holdOnly(all: ArrayBuffer[InternalRow]): Unit = if (all.isEmpty) waiting.clear() else waiting.put(all.toArray)
}
