package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

/**
 * Partial matches at the same position with the same transitions enabled. A row does the same to all of them,
 * as far as conditions on the row alone decide it. Each is stored as its last node and its first row.
 */
class PartialMatchGroup(val position: Int, val enabled: Long) {
  val lastNodes = new IntBuffer
  val startRows = new IntBuffer

  def length: Int = lastNodes.length

  def add(lastNode: Int, startRow: Int): Unit = {
    lastNodes += lastNode
    startRows += startRow
  }

  def addAll(other: PartialMatchGroup): Unit = {
    var i = 0
    while (i < other.length) { add(other.lastNodes(i), other.startRows(i)); i += 1 }
  }

  def filter(keep: Int => Boolean): PartialMatchGroup = {
    val kept = new PartialMatchGroup(position, enabled)
    var i = 0
    while (i < length) { if (keep(startRows(i))) kept.add(lastNodes(i), startRows(i)); i += 1 }
    kept
  }

  def isAt(position: Int, enabled: Long): Boolean = this.position == position && this.enabled == enabled
}

/**
 * The open partial matches of one key, in groups, so that a row that means nothing to a group costs one look
 * at the group, however many partial matches it has. `within`, in microseconds, is exclusive.
 */
class PartialMatches(matched: MatchedRows, within: Option[Long]) {
  private var all = new ArrayBuffer[PartialMatchGroup]
  private val bounded = within.isDefined
  private val window = within.getOrElse(0L)
  /** No partial match starts before this time; it is exact only after `removeExpired`. */
  private var earliestStart = Long.MaxValue

  def groups: ArrayBuffer[PartialMatchGroup] = all
  def isEmpty: Boolean = all.isEmpty
  def length: Int = { var n = 0; var i = 0; while (i < all.length) { n += all(i).length; i += 1 }; n }

  def startTime(startRow: Int): Long = matched.times(startRow)
  def expired(startRow: Int, time: Long): Boolean = bounded && time - startTime(startRow) >= window
  def mayHaveExpired(time: Long): Boolean =
    bounded && earliestStart != Long.MaxValue && time - earliestStart >= window

  def add(position: Int, enabled: Long, lastNode: Int, startRow: Int): Unit = {
    group(position, enabled).add(lastNode, startRow)
    earliestStart = math.min(earliestStart, startTime(startRow))
  }

  private def group(position: Int, enabled: Long): PartialMatchGroup =
    all.find(_.isAt(position, enabled)).getOrElse {
      val created = new PartialMatchGroup(position, enabled)
      all += created
      created
    }

  /** Replaces all groups by those that a row left unchanged and those that it changed. */
  def replace(unchanged: ArrayBuffer[PartialMatchGroup], changed: ArrayBuffer[PartialMatchGroup]): Unit = {
    all = unchanged
    changed.foreach { group =>
      val same = all.find(_.isAt(group.position, group.enabled))
      if (same.isEmpty) all += group else same.get.addAll(group)
    }
  }

  /** Keeps the partial matches whose first row satisfies `keep`. */
  def retain(keep: Int => Boolean): Unit = all = all.map(_.filter(keep)).filter(_.length > 0)

  def removeExpired(time: Long): Unit = {
    retain(!expired(_, time))
    earliestStart = startTimes.foldLeft(Long.MaxValue)(math.min)
  }

  def foreach(use: (PartialMatchGroup, Int) => Unit): Unit = all.foreach { group =>
    var i = 0
    while (i < group.length) { use(group, i); i += 1 }
  }

  def startRows: Iterator[Int] =
    all.iterator.flatMap(group => (0 until group.length).iterator.map(group.startRows(_)))
  def startTimes: Iterator[Long] = startRows.map(startTime)

  /**
   * The last node of a partial match that starts before a row; -1 if there is none. `openAt`: partial matches
   * that have expired at `time` do not count.
   */
  def startedBefore(startRow: Int, openAt: Boolean, time: Long): Int = {
    var i = 0
    while (i < all.length) {
      val group = all(i)
      val n = group.length
      var k = 0
      while (k < n) {
        val start = group.startRows(k)
        if (start < startRow && !(openAt && expired(start, time))) return group.lastNodes(k)
        k += 1
      }
      i += 1
    }
    -1
  }
}
