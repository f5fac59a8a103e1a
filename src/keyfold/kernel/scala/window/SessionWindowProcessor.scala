package org.apache.spark.sql.keyfold.window

import java.util.{Collections, IdentityHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.{AggregateFold, InternalColumns}
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, TimerTicks}

/**
 * Sessions: rows of a key no further apart than a gap. Open sessions never touch one another, so that they
 * are in order by start and by end alike.
 */
class SessionWindowProcessor(
    fold: AggregateFold,
    layout: ShuffledRowLayout,
    settings: SideOutputSettings,
    emission: WindowEmission) extends WindowProcessor(fold, layout, settings, emission) {
  private val endAt = fold.state.indexWhere(_.name == InternalColumns.End)
  private def start(s: InternalRow): Long = s.getLong(startAt)
  private def end(s: InternalRow): Long = s.getLong(endAt)

  override protected def add(key: InternalRow, batch: Array[InternalRow]): Unit = emittingChanges(key) {
    val rows = withoutLate(batch)
    if (layout.ordered) inOrder(rows)
    else java.util.Arrays.sort(rows, KeyedProcessor.byLong(layout.prefix + startAt))
    rows.foreach(r => tried(r)(absorb(r)))
  }

  /**
   * The rows that belong to an open session; the others are emitted as late. A row that would be late as a
   * session of its own arrives with a side output. It ends before any open session, so that it is in time if
   * it reaches the first of those, perhaps by way of others: from the last end to the first, each such row is
   * checked once.
   */
  private def withoutLate(batch: Array[InternalRow]): Array[InternalRow] = {
    val (inTime, doubtful) = batch.partition(_.isNullAt(layout.sideOutputAt))
    if (doubtful.isEmpty) return batch
    val starts = open.headOption.map(start).iterator ++ inTime.iterator.map(r => span(r)._1)
    var first = starts.minOption.getOrElse(TimerTicks.Never)
    val joining = doubtful.map(r => (r, span(r))).sortBy(-_._2._2).filter { case (r, (from, to)) =>
      val joins = first <= to
      if (joins) first = math.min(first, from) else out += sideOutputRow(layout.sideOutput(r))
      joins
    }
    inTime ++ joining.map(_._1)
  }

  /** The session of one row. */
  private def single(row: InternalRow): InternalRow = plus(null, row)
  private def span(row: InternalRow): (Long, Long) =
    if (layout.ordered) {
      val s = single(row)
      (start(s), end(s))
    } else (row.getLong(layout.prefix + startAt), row.getLong(layout.prefix + endAt))

  private def absorb(row: InternalRow): Unit = {
    val one = single(row)
    val (from, until) = touched(one)
    if (from == until) open.insert(from, one)
    else {
      val all = open.slice(from, until)
      val joined = all.tail.foldLeft(all.head)(merged)
      val state =
        if (!layout.ordered && start(one) < start(joined)) merged(one, joined) else plus(joined, row)
      open.remove(from, until - from)
      open.insert(from, state)
    }
  }

  /** The open sessions that a session touches: the first of them, and the first after them. */
  private def touched(s: InternalRow): (Int, Int) = {
    var until = open.length
    while (until > 0 && start(open(until - 1)) > end(s)) until -= 1
    var from = until
    while (from > 0 && end(open(from - 1)) >= start(s)) from -= 1
    (from, until)
  }

  /**
   * Emits the changes of the open sessions: a delete where the bounds no longer exist, an upsert where a
   * session is new or has new values.
   */
  private def emittingChanges(key: InternalRow)(act: => Unit): Unit = {
    val old = open.toArray
    act
    if (emission.changes) {
      val bounds = open.iterator.map(s => (start(s), end(s))).toSet
      // States are never changed in place, so that the same object is the same session, unchanged.
      val known = Collections.newSetFromMap(new IdentityHashMap[InternalRow, java.lang.Boolean])
      old.foreach { o =>
        known.add(o)
        if (!bounds((start(o), end(o)))) emitDelete(key, WindowState(start(o), end(o), o), closed = false)
      }
      open.foreach { s =>
        def previous = old.find(o => start(o) == start(s) && end(o) == end(s)).orNull
        if (!known.contains(s)) emitUpsert(key, start(s), end(s), s, previous)
      }
    }
  }

  override protected def close(key: InternalRow, watermark: Long): Unit = {
    val over = open.takeWhile(end(_) <= watermark)
    over.foreach(s => emitFinal(key, start(s), end(s), watermark)(s))
    open = open.drop(over.length)
  }

  override protected def nextEnd: Long = end(open.head)
  override protected def openWindows: Iterator[WindowState] =
    open.iterator.map(s => WindowState(start(s), end(s), s))

  override protected def replay(
      key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit = {
    val one = single(row)
    val keep = emission.keep.get
    val near = kept.all
      .filter(k => k.start <= end(one) && k.end >= start(one) && k.end + keep > watermark).sortBy(_.start)
    val (from, until) = touched(one)
    if (from < until) emittingChanges(key) {
      // The row connects kept sessions to an open one, of which they are part now.
      near.foreach { k => kept.remove(k); reopen(k.state) }
      absorb(row)
    } else if (near.isEmpty && end(one) + keep <= watermark)
      out += sideOutputRow(SideOutput.expiredReplay(layout.sideOutput(row), Seq((start(one), end(one)))))
    else {
      val state =
        if (near.isEmpty) one
        else plus(near.tail.foldLeft(near.head.state)((s, k) => merged(s, k.state)), row)
      near.foreach(kept.remove)
      correct(key, WindowState(start(state), end(state), state))
    }
  }

  /** Makes a kept session part of the open sessions that it touches. */
  private def reopen(state: InternalRow): Unit = {
    val (from, until) = touched(state)
    val joined = open.slice(from, until).foldLeft(state)(merged)
    open.remove(from, until - from)
    open.insert(from, joined)
  }
}
