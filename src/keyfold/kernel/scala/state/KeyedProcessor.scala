package org.apache.spark.sql.keyfold.state

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, RowError}
import org.apache.spark.sql.keyfold.physical.BatchAware
import org.apache.spark.sql.keyfold.rows.{SideOutput, SideOutputBuilder, SideOutputSettings}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The rows that come through the shuffle: `prefix` columns of the key, perhaps with a pane of time; then either a partial state to merge or,
 * if `ordered`, the columns of a row to fold, its order stamp and the whole row; and the side output.
 */
case class ShuffledRowLayout(input: Seq[Attribute], prefix: Int, ordered: Boolean) {
  val sideOutputAt: Int = input.length - 1
  val stamp: Int = input.length - 3
  /** The side output of a row, null if it has none. */
  def sideOutput(row: InternalRow): InternalRow = SideOutput.of(row, sideOutputAt)
  /** What is kept of a row that is rejected. */
  def raw: Expression = if (ordered) input(input.length - 2) else SideOutputBuilder.struct(input.init)
}

/** What every stateful part shares: loads a key's state, folds the batch's rows in, stores it, and emits changes. */
abstract class KeyedProcessor(val fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] with BatchAware {
  @transient protected lazy val live = new ChangeEmitter(fold, arriving.prefix)
  @transient protected lazy val rejects = new SideOutputBuilder(arriving.raw, arriving.input, keeping)
  @transient private lazy val sideOutputs = {
    val columns = (fold.keys ++ fold.result).map(_.dataType) ++ Seq(fold.seen).filter(_ => fold.previous)
    UnsafeProjection.create((Literal("rejected") +: columns.map(Literal(null, _))) :+ BoundReference(0, SideOutput.schema, nullable = false))
  }
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient protected lazy val out = new ArrayBuffer[InternalRow](4)

  /** What a reader sees of a stored state. */
  def shown(key: InternalRow, stored: InternalRow): Iterator[InternalRow]
  def stateSchema: StructType
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

  /** Does something with a row; one on which it throws is rejected. */
  protected def tried(row: InternalRow)(act: => Unit): Boolean =
    try { act; true } catch { case e: RowError => out += sideOutputRow(rejects.rejected(row, e)); false }

  @transient private lazy val before = new GenericInternalRow(arriving.prefix)
  @transient private lazy val prefixed = new JoinedRow
  /** Merges a stored state into a buffer. */
  protected def mergeInto(b: InternalRow, stored: InternalRow): Unit = live.merge(b, prefixed(before, stored))

  /** The event time of a row that came by itself; zero where the stream has none. */
  protected def time(row: InternalRow): Long = { val s = row.getStruct(arriving.stamp, 2); if (s.isNullAt(0)) 0L else s.getLong(0) }

  protected def inOrder(batch: Array[InternalRow]): Unit = if (batch.length > 1) java.util.Arrays.sort(batch, KeyedProcessor.byStamp(arriving.stamp))
}

object KeyedProcessor {
  /** By a number in a column. */
  def byLong(at: Int): java.util.Comparator[InternalRow] = (x, y) => java.lang.Long.compare(x.getLong(at), y.getLong(at))

  /** By event time, rows without one first, then by arrival. */
  def byStamp(at: Int): java.util.Comparator[InternalRow] = (x, y) => {
    val (a, b) = (x.getStruct(at, 2), y.getStruct(at, 2))
    val t = if (a.isNullAt(0) || b.isNullAt(0)) java.lang.Boolean.compare(!a.isNullAt(0), !b.isNullAt(0)) else java.lang.Long.compare(a.getLong(0), b.getLong(0))
    if (t != 0) t else java.lang.Long.compare(a.getLong(1), b.getLong(1))
  }
}
