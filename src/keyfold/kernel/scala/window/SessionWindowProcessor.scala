package org.apache.spark.sql.keyfold.window

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.{SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, TimerTicks}

/** Sessions: rows of a key no further apart than a gap. Those that are open never touch one another, so that they are in order by start and by end alike. */
class SessionWindowProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, closing: WindowEmission) extends WindowProcessor(fold, arriving, keeping, closing) {
  private val endAt = fold.state.indexWhere(_.name == InternalColumns.End)
  private def start(s: InternalRow): Long = s.getLong(startAt)
  private def end(s: InternalRow): Long = s.getLong(endAt)

  override protected def add(key: InternalRow, batch: Array[InternalRow]): Unit = saying(key) {
    val rows = inTime(batch)
    if (arriving.ordered) inOrder(rows) else java.util.Arrays.sort(rows, KeyedProcessor.byLong(arriving.prefix + startAt))
    rows.foreach(r => tried(r)(absorb(r)))
  }

  /**
   * The rows that end up in an open session. Those that alone would be late carry their text; they end before any that is open, so that one is in time if it
   * reaches the first of those, by way of others perhaps: from the last end to the first, each is asked once.
   */
  private def inTime(batch: Array[InternalRow]): Array[InternalRow] = {
    val (sure, doubtful) = batch.partition(_.isNullAt(arriving.sideOutputAt))
    if (doubtful.isEmpty) return batch
    var first = (open.headOption.map(start).iterator ++ sure.iterator.map(r => span(r)._1)).minOption.getOrElse(TimerTicks.Never)
    val reached = doubtful.map(r => (r, span(r))).sortBy(-_._2._2).filter { case (r, (from, to)) =>
      val in = first <= to
      if (in) first = math.min(first, from) else out += sideOutputRow(arriving.sideOutput(r))
      in
    }
    sure ++ reached.map(_._1)
  }

  /** The row by itself, as a session. */
  private def alone(row: InternalRow): InternalRow = plus(null, row)
  private def span(row: InternalRow): (Long, Long) =
    if (arriving.ordered) { val s = alone(row); (start(s), end(s)) } else (row.getLong(arriving.prefix + startAt), row.getLong(arriving.prefix + endAt))

  private def absorb(row: InternalRow): Unit = {
    val one = alone(row)
    val (from, until) = touched(one)
    if (from == until) open.insert(from, one)
    else {
      val all = open.slice(from, until)
      val joined = all.tail.foldLeft(all.head)(merged)
      val state = if (!arriving.ordered && start(one) < start(joined)) merged(one, joined) else plus(joined, row)
      open.remove(from, until - from)
      open.insert(from, state)
    }
  }

  /** The open sessions that a session touches: from one, until another. */
  private def touched(s: InternalRow): (Int, Int) = {
    var until = open.length
    while (until > 0 && start(open(until - 1)) > end(s)) until -= 1
    var from = until
    while (from > 0 && end(open(from - 1)) >= start(s)) from -= 1
    (from, until)
  }

  /** Emits what changed: a session whose bounds are no longer is deleted, one that is new or has other values is there. */
  private def saying(key: InternalRow)(act: => Unit): Unit = {
    val old = open.toArray
    act
    if (closing.changes) {
      val (now, same) = (open.iterator.map(s => (start(s), end(s))).toSet, java.util.Collections.newSetFromMap(new java.util.IdentityHashMap[InternalRow, java.lang.Boolean]))
      old.foreach { o =>
        same.add(o)
        if (!now((start(o), end(o)))) gone(key, WindowState(start(o), end(o), o), closed = false)
      }
      open.foreach(s => if (!same.contains(s)) upsert(key, start(s), end(s), s, old.find(o => start(o) == start(s) && end(o) == end(s)).orNull))
    }
  }

  override protected def close(key: InternalRow, watermark: Long): Unit = {
    val over = open.takeWhile(end(_) <= watermark)
    over.foreach(s => finish(key, start(s), end(s), watermark)(s))
    open = open.drop(over.length)
  }

  override protected def next: Long = end(open.head)
  override protected def openWindows: Iterator[WindowState] = open.iterator.map(s => WindowState(start(s), end(s), s))

  override protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit = {
    val one = alone(row)
    val still = closing.keep.get
    val near = everyKept.filter(k => k.start <= end(one) && k.end >= start(one) && k.end + still > watermark).sortBy(_.start)
    val (from, until) = touched(one)
    if (from < until) saying(key) {
      // What was closed is part of an open session now.
      near.foreach { k => undo(k); adopt(k.state) }
      absorb(row)
    } else if (near.isEmpty && end(one) + still <= watermark) out += sideOutputRow(SideOutput.expiredReplay(arriving.sideOutput(row), Seq((start(one), end(one)))))
    else {
      val state = if (near.isEmpty) one else plus(near.tail.foldLeft(near.head.state)((s, k) => merged(s, k.state)), row)
      near.foreach(undo)
      renew(key, WindowState(start(state), end(state), state))
    }
  }

  private def adopt(state: InternalRow): Unit = {
    val (from, until) = touched(state)
    val joined = open.slice(from, until).foldLeft(state)(merged)
    open.remove(from, until - from)
    open.insert(from, joined)
  }
}
