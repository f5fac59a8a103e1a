package org.apache.spark.sql.keyfold.state

import java.util.Comparator

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.physical.{BatchAware, OrderStamp}
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The base of a table's processors: loads a key's state, folds the batch's rows into it, stores it, emits
 * changes.
 */
abstract class KeyedProcessor(
    val fold: AggregateFold, layout: ShuffledRowLayout, settings: SideOutputSettings)
    extends StatefulProcessor[InternalRow, InternalRow, InternalRow] with BatchAware {
  @transient protected lazy val live = new ChangeEmitter(fold, layout.prefix)
  @transient protected lazy val rejects = new SideOutputBuilder(layout.rejectedRow, layout.input, settings)
  @transient private lazy val sideOutputs = {
    val columns = (fold.keys ++ fold.result).map(_.dataType) ++ Seq(fold.seen).filter(_ => fold.previous)
    val side = BoundReference(0, SideOutput.schema, nullable = false)
    UnsafeProjection.create((Literal("rejected") +: columns.map(Literal(null, _))) :+ side)
  }
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient protected lazy val out = new ArrayBuffer[InternalRow](4)

  /** The table rows of a stored state. */
  def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow]
  def stateSchema: StructType
  /** The closed windows that are kept, as they are stored. */
  def keptSchema: StructType = new StructType
  /** The table row of a closed window that is kept. */
  def shownKept(key: InternalRow, stored: InternalRow): Iterator[InternalRow] = Iterator.empty

  /** A side output as a row of the table's output. */
  protected def sideOutputRow(side: InternalRow): InternalRow = sideOutputs(InternalRow(side)).copy()

  protected def copies(rows: Iterator[InternalRow]): Array[InternalRow] = {
    val first = rows.next().copy()
    if (!rows.hasNext) return Array(first)
    val all = ArrayBuffer(first)
    while (rows.hasNext) all += rows.next().copy()
    all.toArray
  }

  /** Whether `act` succeeds for a row; if a user's expression throws, the row is rejected. */
  protected def tried(row: InternalRow)(act: => Unit): Boolean =
    try { act; true } catch { case e: RowError => out += sideOutputRow(rejects.rejected(row, e)); false }

  @transient private lazy val emptyPrefix = new GenericInternalRow(layout.prefix)
  @transient private lazy val prefixed = new JoinedRow
  /** Merges a stored state into a buffer. */
  protected def mergeInto(b: InternalRow, stored: InternalRow): Unit =
    live.merge(b, prefixed(emptyPrefix, stored))

  /** A stored state, or null, with one more row, or one more partial state, as it is stored. */
  protected def plus(stored: InternalRow, row: InternalRow): InternalRow =
    if (layout.ordered) live.plus(stored, row)
    else {
      val b = if (stored == null) live.zero() else live.load(stored)
      live.merge(b, row)
      live.stored(b)
    }

  /** Two stored states as one. */
  protected def merged(a: InternalRow, b: InternalRow): InternalRow = {
    val buffer = live.load(a)
    mergeInto(buffer, b)
    live.stored(buffer)
  }

  /** The event time of a row; zero if the stream has none. */
  protected def time(row: InternalRow): Long = layout.time(row)

  /** Sorts a batch by event time, then by arrival. */
  protected def inOrder(batch: Array[InternalRow]): Unit =
    if (batch.length > 1) java.util.Arrays.sort(batch, OrderStamp.order(layout.stamp))
}

object KeyedProcessor {
  /** The order of a column of longs. */
  def byLong(at: Int): Comparator[InternalRow] =
    (x, y) => java.lang.Long.compare(x.getLong(at), y.getLong(at))
}
