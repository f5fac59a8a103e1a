package org.apache.spark.sql.keyfold

import org.apache.spark.sql.catalyst.InternalRow

/** Sessions: rows of a key no further apart than a gap. Those that are open never touch one another, so that they are in order by start and by end alike. */
class Sessioned(fold: Fold, arriving: Arriving, keeping: Keeping, closing: Closing) extends Windowed(fold, arriving, keeping, closing) {
  private val endAt = fold.state.indexWhere(_.name == Names.End)
  private def start(s: InternalRow): Long = s.getLong(startAt)
  private def end(s: InternalRow): Long = s.getLong(endAt)

  override protected def add(key: InternalRow, batch: Array[InternalRow], watermark: Long): Unit = saying(key) {
    val (sure, doubtful) = batch.partition(_.isNullAt(arriving.bad))
    if (arriving.ordered) inOrder(sure) else java.util.Arrays.sort(sure, Sessioned.byStart(arriving.prefix + startAt))
    sure.foreach(r => tried(r)(absorb(r)))
    // A row that alone would be late is not if it ends up in an open session, by way of others perhaps.
    var left = doubtful.toList
    var more = true
    while (more) {
      val (near, far) = left.partition(r => touches(alone(r)))
      near.foreach(r => tried(r)(absorb(r)))
      left = far
      more = near.nonEmpty
    }
    left.foreach(r => out += rejected(r.getUTF8String(arriving.bad)))
  }

  /** The row by itself, as a session. */
  private def alone(row: InternalRow): InternalRow = with1(null, row)
  private def touches(s: InternalRow): Boolean = open.exists(o => start(o) <= end(s) && end(o) >= start(s))

  private def absorb(row: InternalRow): Unit = {
    val one = alone(row)
    val (from, until) = touched(one)
    if (from == until) open.insert(from, one)
    else {
      val all = open.slice(from, until)
      val joined = all.tail.foldLeft(all.head)(merged)
      val state = if (!arriving.ordered && start(one) < start(joined)) merged(one, joined) else with1(joined, row)
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
      old.foreach(o => if (!open.exists(s => start(s) == start(o) && end(s) == end(o))) out += live.delete(bounds(key, start(o), end(o))).copy())
      open.foreach(s => if (!old.exists(_ eq s)) upsert(key, start(s), end(s), s))
    }
  }

  override protected def close(key: InternalRow, watermark: Long): Unit = {
    val over = open.takeWhile(end(_) <= watermark)
    over.foreach(s => finish(key, start(s), end(s), s, watermark))
    open = open.drop(over.length)
  }

  override protected def next: Long = end(open.head)
  override protected def openWindows: Iterator[Kept] = open.iterator.map(s => Kept(start(s), end(s), s))

  override protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit = {
    val one = alone(row)
    val near = everyKept.filter(k => k.start <= end(one) && k.end >= start(one)).sortBy(_.start)
    if (touches(one)) saying(key) {
      // What was closed is part of an open session now.
      near.foreach { k => undo(k); adopt(k.state) }
      absorb(row)
    } else if (near.isEmpty && end(one) + closing.keep.get <= watermark) out += rejected(Rejects.gone(row.getUTF8String(arriving.bad), Seq((start(one), end(one)))))
    else {
      val state = if (near.isEmpty) one else with1(near.tail.foldLeft(near.head.state)((s, k) => merged(s, k.state)), row)
      near.foreach(undo)
      correct(Kept(start(state), end(state), state))
    }
  }

  private def adopt(state: InternalRow): Unit = {
    val (from, until) = touched(state)
    val joined = open.slice(from, until).foldLeft(state)(merged)
    open.remove(from, until - from)
    open.insert(from, joined)
  }
}

object Sessioned {
  private def byStart(at: Int): java.util.Comparator[InternalRow] = (x, y) => java.lang.Long.compare(x.getLong(at), y.getLong(at))
}
