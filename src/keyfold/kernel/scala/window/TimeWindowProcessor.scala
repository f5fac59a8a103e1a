package org.apache.spark.sql.keyfold.window

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.AggregateFold
import org.apache.spark.sql.keyfold.physical.EventTime
import org.apache.spark.sql.keyfold.rows.side_output.{SideOutput, SideOutputSettings}
import org.apache.spark.sql.keyfold.state.{KeyedProcessor, ShuffledRowLayout, TimerTicks}

/**
 * Tumbling and sliding windows: a row is folded into one pane of its key, and windows merge panes when they
 * are emitted.
 */
class TimeWindowProcessor(
    fold: AggregateFold,
    layout: ShuffledRowLayout,
    settings: SideOutputSettings,
    emission: WindowEmission,
    grid: WindowGrid) extends WindowProcessor(fold, layout, settings, emission) {
  private def start(i: Int): Long = open(i).getLong(startAt)
  private def pane(row: InternalRow): Long =
    if (layout.ordered) grid.of(time(row)) else row.getLong(layout.prefix - 1)
  /** The first window that ends after a time. */
  private def firstAfter(t: Long): Long =
    if (t == EventTime.NoWatermark) Long.MinValue else grid.ends.index(t) + 1

  override protected def add(key: InternalRow, batch: Array[InternalRow]): Unit = {
    val old = if (fold.previous) open.clone() else null
    val changed = foldIntoPanes(batch)
    if (emission.changes) emitChanges(key, changed, old)
  }

  /** Folds the batch pane by pane and returns the panes that changed, in order. */
  private def foldIntoPanes(batch: Array[InternalRow]): ArrayBuffer[Long] = {
    if (layout.ordered) inOrder(batch)
    else if (batch.length > 1) java.util.Arrays.sort(batch, KeyedProcessor.byLong(layout.prefix - 1))
    val changed = new ArrayBuffer[Long](batch.length)
    var i = 0
    var at = 0
    while (i < batch.length) {
      val p = pane(batch(i))
      while (at < open.length && start(at) < p) at += 1
      val known = at < open.length && start(at) == p
      val b = if (known) live.load(open(at)) else live.zero()
      val typed = if (layout.ordered) live.renew(b) else null
      var folded = false
      while (i < batch.length && pane(batch(i)) == p) {
        val row = batch(i)
        if (tried(row)(if (layout.ordered) live.update(b, row) else live.merge(b, row))) folded = true
        i += 1
      }
      if (layout.ordered) live.settle(b, typed)
      if (folded) {
        if (known) open(at) = live.stored(b) else open.insert(at, live.stored(b))
        changed += p
      }
    }
    changed
  }

  private def emitChanges(
      key: InternalRow, changed: ArrayBuffer[Long], old: ArrayBuffer[InternalRow]): Unit = {
    val windows = new PaneMerger(open)
    val oldWindows = if (old == null) null else new PaneMerger(old)
    var k = firstAfter(closed)
    changed.foreach { p =>
      k = math.max(k, grid.first(p))
      val last = grid.last(p)
      while (k <= last) {
        def previous = if (oldWindows.hasPanes(k)) oldWindows(k) else null
        emitUpsert(key, grid.start(k), grid.end(k), windows(k), previous)
        k += 1
      }
    }
  }

  override protected def close(key: InternalRow, watermark: Long): Unit = {
    val windows = new PaneMerger(open)
    var k = firstAfter(closed)
    val until = firstAfter(watermark)
    var i = 0
    while (i < open.length) {
      k = math.max(k, grid.first(start(i)))
      val last = math.min(grid.last(start(i)), until - 1)
      while (k <= last) {
        emitFinal(key, grid.start(k), grid.end(k), watermark)(windows(k))
        k += 1
      }
      i += 1
    }
    val over = open.iterator.takeWhile(p => grid.last(p.getLong(startAt)) < until).length
    open = open.drop(over)
  }

  override protected def nextEnd: Long = grid.end(math.max(grid.first(start(0)), firstAfter(closed)))

  override protected def openWindows: Iterator[WindowState] = {
    val windows = new PaneMerger(open)
    val numbers = open.indices.iterator
      .flatMap(i => math.max(grid.first(start(i)), firstAfter(closed)) to grid.last(start(i))).distinct
    numbers.map(k => WindowState(grid.start(k), grid.end(k), windows(k)))
  }

  override protected def replay(
      key: InternalRow, row: InternalRow, missed: Long, watermark: Long): Unit = {
    val p = pane(row)
    val numbers = grid.first(p) to math.min(grid.last(p), firstAfter(missed) - 1)
    val (current, expired) =
      numbers.map(k => (grid.start(k), grid.end(k))).partition(_._2 + emission.keep.get > watermark)
    current.foreach { case (from, to) =>
      val old = kept.get(TimerTicks.of(to)).map(_.state).orNull
      correct(key, WindowState(from, to, plus(old, row)))
    }
    if (expired.nonEmpty) out += sideOutputRow(SideOutput.expiredReplay(layout.sideOutput(row), expired))
  }

  /**
   * Merges the panes of consecutive windows with two stacks: `front` holds, for each pane up to `split`, the
   * merge of it and those after it; `back` is the merge of the panes from `split` on. So each pane is merged
   * at most twice and each window once, however many panes a window has.
   */
  private class PaneMerger(panes: ArrayBuffer[InternalRow]) {
    private def start(i: Int): Long = panes(i).getLong(startAt)
    private val front = new Array[InternalRow](panes.length)
    private var (from, until, split) = (0, 0, 0)
    private var back: InternalRow = _

    /** Whether any pane is in the window. */
    def hasPanes(k: Long): Boolean = {
      val i = panes.indexWhere(_.getLong(startAt) >= grid.start(k), from)
      i >= 0 && start(i) < grid.end(k)
    }

    /** The merged panes of a window, which has at least one; `k` never decreases. */
    def apply(k: Long): InternalRow = {
      val (low, high) = (grid.start(k), grid.end(k))
      while (from < panes.length && start(from) < low) from += 1
      var to = math.max(until, from)
      while (to < panes.length && start(to) < high) to += 1
      // If a merge throws, `split` stays zero, and the next window starts with empty stacks.
      val oldSplit = split
      split = 0
      if (from >= oldSplit) {
        back = null
        var i = to - 1
        while (i >= from) {
          front(i) = if (i == to - 1) panes(i) else merged(panes(i), front(i + 1))
          i -= 1
        }
        split = to
      } else {
        var i = until
        while (i < to) {
          if (back == null) back = live.load(panes(i)) else mergeInto(back, panes(i))
          i += 1
        }
        split = oldSplit
      }
      until = to
      if (back == null) front(from) else merged(front(from), live.stored(back))
    }
  }
}
