package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.rows.{EventTime, SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, TimerTicks}

/** Tumbling and sliding windows: a row is folded into one pane of its key, and windows merge panes when they are shown. */
class TimeWindowProcessor(fold: AggregateFold, arriving: ShuffledRowLayout, keeping: SideOutputSettings, closing: WindowEmission, grid: WindowGrid) extends WindowProcessor(fold, arriving, keeping, closing) {
  private def start(i: Int): Long = open(i).getLong(startAt)
  private def pane(row: InternalRow): Long = if (arriving.ordered) grid.of(time(row)) else row.getLong(arriving.prefix - 1)
  /** The first window that ends after a time. */
  private def after(t: Long): Long = if (t == EventTime.NoWatermark) Long.MinValue else grid.ends.index(t) + 1

  override protected def add(key: InternalRow, batch: Array[InternalRow]): Unit = {
    if (arriving.ordered) inOrder(batch) else if (batch.length > 1) java.util.Arrays.sort(batch, KeyedProcessor.byLong(arriving.prefix - 1))
    val touched = new ArrayBuffer[Long](batch.length)
    val old = if (fold.previous) open.clone() else null
    var i = 0
    var at = 0
    while (i < batch.length) {
      val p = pane(batch(i))
      while (at < open.length && start(at) < p) at += 1
      val known = at < open.length && start(at) == p
      val b = if (known) live.load(open(at)) else live.zero()
      val old = if (arriving.ordered) live.renew(b) else null
      var folded = false
      while (i < batch.length && pane(batch(i)) == p) {
        val row = batch(i)
        if (tried(row)(if (arriving.ordered) live.update(b, row) else live.merge(b, row))) folded = true
        i += 1
      }
      if (arriving.ordered) live.settle(b, old)
      if (folded) {
        if (known) open(at) = live.stored(b) else open.insert(at, live.stored(b))
        touched += p
      }
    }
    if (closing.changes) {
      val windows = new Run(open)
      val were = if (old == null) null else new Run(old)
      var k = after(closed)
      touched.foreach { p =>
        k = math.max(k, grid.first(p))
        val last = grid.last(p)
        while (k <= last) { upsert(key, grid.start(k), grid.end(k), windows(k), if (were.holds(k)) were(k) else null); k += 1 }
      }
    }
  }

  override protected def close(key: InternalRow, watermark: Long): Unit = {
    val windows = new Run(open)
    var k = after(closed)
    val until = after(watermark)
    var i = 0
    while (i < open.length) {
      k = math.max(k, grid.first(start(i)))
      val last = math.min(grid.last(start(i)), until - 1)
      while (k <= last) { finish(key, grid.start(k), grid.end(k), watermark)(windows(k)); k += 1 }
      i += 1
    }
    val over = open.iterator.takeWhile(p => grid.last(p.getLong(startAt)) < until).length
    open = open.drop(over)
  }

  override protected def next: Long = grid.end(math.max(grid.first(start(0)), after(closed)))

  override protected def openWindows: Iterator[WindowState] = {
    val windows = new Run(open)
    open.indices.iterator.flatMap(i => math.max(grid.first(start(i)), after(closed)) to grid.last(start(i))).distinct.map(k => WindowState(grid.start(k), grid.end(k), windows(k)))
  }

  override protected def replay(key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit = {
    val p = pane(row)
    val (on, gone) = (grid.first(p) to math.min(grid.last(p), after(missed) - 1)).map(k => (grid.start(k), grid.end(k))).partition(_._2 + closing.keep.get > watermark)
    on.foreach { case (from, to) => renew(key, WindowState(from, to, plus(recall(TimerTicks.of(to)).map(_.state).orNull, row))) }
    if (gone.nonEmpty) out += sideOutputRow(SideOutput.expiredReplay(arriving.sideOutput(row), gone))
  }

  /** The panes of windows that follow one another, merged: each pane is merged at most twice and each window once, however many panes a window has. */
  private class Run(panes: ArrayBuffer[InternalRow]) {
    private def start(i: Int): Long = panes(i).getLong(startAt)
    private val front = new Array[InternalRow](panes.length)
    private var (from, until, turn) = (0, 0, 0)
    private var back: InternalRow = _

    /** Whether the window holds a pane at all. */
    def holds(k: Long): Boolean = {
      val i = panes.indexWhere(_.getLong(startAt) >= grid.start(k), from)
      i >= 0 && start(i) < grid.end(k)
    }

    /** `k` never decreases; the window holds at least one pane. */
    def apply(k: Long): InternalRow = {
      val (low, high) = (grid.start(k), grid.end(k))
      while (from < panes.length && start(from) < low) from += 1
      var to = math.max(until, from)
      while (to < panes.length && start(to) < high) to += 1
      // Whatever throws here leaves a run that begins anew with the next window.
      val turned = turn
      turn = 0
      if (from >= turned) {
        back = null
        var i = to - 1
        while (i >= from) { front(i) = if (i == to - 1) panes(i) else merged(panes(i), front(i + 1)); i -= 1 }
        turn = to
      } else {
        var i = until
        while (i < to) { if (back == null) back = live.load(panes(i)) else mergeInto(back, panes(i)); i += 1 }
        turn = turned
      }
      until = to
      if (back == null) front(from) else merged(front(from), live.stored(back))
    }
  }
}
