package org.apache.spark.sql.keyfold

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._

/**
 * The stateful part: loads a key's state, folds the batch's rows in, stores it, and emits the change. `input` is what comes through the shuffle: the key,
 * then either state to merge (`ordered` = false) or rows to fold in order (`ordered` = true), then the rejection of a row that can't be used.
 */
class Keyed(fold: Fold, input: Seq[Attribute], ordered: Boolean, ttlMs: Option[Long], keep: Boolean, zone: String, stream: Option[String])
    extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var state: ValueState[InternalRow] = _
  @transient private lazy val live = new Live(fold)
  @transient private lazy val rejects = if (ordered) new Rejects(input(input.length - 2): Expression, input, keep, zone, stream) else new Rejects(input.init, input, keep, zone, stream)
  @transient private lazy val rejecting = {
    val blanks = (fold.keys ++ fold.result).map(a => Literal(null, a.dataType))
    UnsafeProjection.create((Literal("rejected") +: blanks) :+ BoundReference(0, StringType, nullable = false))
  }
  private val bad = input.length - 1
  private val stamp = input.length - 3
  private val seen = fold.state.indexWhere(_.name == Names.Seen)

  override def init(mode: OutputMode, time: TimeMode): Unit = {
    state = getHandle.getValueState[InternalRow]("state", Raw.encoder(fold.schema), TTLConfig.NONE)
    clock = if (time == TimeMode.ProcessingTime()) _.getCurrentProcessingTimeInMs() else _.getCurrentWatermarkInMs()
    arrival = time == TimeMode.ProcessingTime()
  }
  @transient private var clock: TimerValues => Long = _
  @transient private var arrival: Boolean = _
  // Reused: Spark takes all of one key's output before it hands in the next key.
  @transient private lazy val out = new ArrayBuffer[InternalRow](4)

  override def handleInputRows(key: InternalRow, rows: Iterator[InternalRow], times: TimerValues): Iterator[InternalRow] = {
    if (key.anyNull) return rows.map(r => rejected(r.getUTF8String(bad)))
    val old = state.get()
    val expired = old != null && ttlMs.exists(t => !old.isNullAt(seen) && old.getLong(seen) + t <= clock(times))
    val b = if (old == null || expired) live.zero() else live.load(old)
    val batch = copies(rows)
    out.clear()
    val applied = if (ordered) foldInOrder(b, batch) else merge(b, batch)
    if (applied > 0) {
      if (ttlMs.isDefined) touch(b, times)
      val change = try live.upsert(key, b) catch {
        case e if Rejects.isRowError(e) => batch.filter(_ != null).foreach(r => out += rejected(rejects.of(r, e)).copy()); null
      }
      if (change != null) {
        if (expired) out += live.delete(key).copy()
        out += change
        if (ttlMs.isDefined && old == null) getHandle.registerTimer(due(b))
        state.update(live.stored(b))
      }
    }
    out.iterator
  }

  private def copies(rows: Iterator[InternalRow]): Array[InternalRow] = {
    val first = rows.next().copy()
    if (!rows.hasNext) return Array(first)
    val all = ArrayBuffer(first)
    while (rows.hasNext) all += rows.next().copy()
    all.toArray
  }

  private def merge(b: InternalRow, batch: Array[InternalRow]): Int = each(batch)(live.merge(b, _))

  /** Does something with each row; one on which it throws is rejected and leaves the batch. Returns for how many it worked. */
  private def each(batch: Array[InternalRow])(act: InternalRow => Unit): Int = batch.indices.count { i =>
    try { act(batch(i)); true } catch { case e if Rejects.isRowError(e) => out += rejected(rejects.of(batch(i), e)).copy(); batch(i) = null; false }
  }

  private def foldInOrder(b: InternalRow, batch: Array[InternalRow]): Int = {
    if (batch.length > 1) java.util.Arrays.sort(batch, Keyed.byStamp(stamp))
    val old = live.renew(b)
    val applied = each(batch)(live.update(b, _))
    live.settle(b, old)
    applied
  }

  /** A row without a time was seen now; with processing time every row is. Before the first watermark there is no now. */
  private def touch(b: InternalRow, times: TimerValues): Unit = {
    val now = clock(times)
    if (arrival || (b.isNullAt(seen) && now > 0)) b match {
      case u: UnsafeRow => u.setNotNullAt(seen); u.setLong(seen, now)
      case g => g.update(seen, now)
    }
  }

  /** When the key may go; at the first watermark, if it has not been seen at any time yet. */
  private def due(b: InternalRow): Long = if (b.isNullAt(seen)) 1L else b.getLong(seen) + ttlMs.get

  override def handleExpiredTimer(key: InternalRow, times: TimerValues, timer: ExpiredTimerInfo): Iterator[InternalRow] = {
    val old = state.get()
    if (old == null) return Iterator.empty
    val b = live.load(old)
    if (b.isNullAt(seen)) { touch(b, times); state.update(live.stored(b)) }
    if (due(b) > clock(times)) { getHandle.registerTimer(due(b)); Iterator.empty }
    else { state.clear(); Iterator.single(live.delete(key)) }
  }

  private def rejected(why: org.apache.spark.unsafe.types.UTF8String): InternalRow = rejecting(InternalRow(why))
}

/** What a reader sees of every state: `key` and `value` structs in, upserts out. */
case class Rebuild(fold: Fold) extends RowWork {
  def apply(partition: Int, rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val live = new Live(fold)
    rows.map(r => live.upsert(r.getStruct(0, fold.keys.length), live.load(r.getStruct(1, fold.state.length))))
  }
}

object Keyed {
  /** By event time, rows without one first, then by arrival. */
  private def byStamp(at: Int): java.util.Comparator[InternalRow] = (x, y) => {
    val (a, b) = (x.getStruct(at, 2), y.getStruct(at, 2))
    val t = if (a.isNullAt(0) || b.isNullAt(0)) java.lang.Boolean.compare(!a.isNullAt(0), !b.isNullAt(0)) else java.lang.Long.compare(a.getLong(0), b.getLong(0))
    if (t != 0) t else java.lang.Long.compare(a.getLong(1), b.getLong(1))
  }
}
