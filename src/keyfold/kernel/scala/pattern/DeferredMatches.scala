package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayDeque

/**
 * Complete matches that are deferred while a partial match that started earlier is open: if it completes, it
 * takes precedence. They are in the order of their first rows, then of their completion.
 */
class DeferredMatches {
  private val queue = new ArrayDeque[Match]

  def length: Int = queue.length
  def nonEmpty: Boolean = queue.nonEmpty
  def head: Match = queue.head
  def headOption: Option[Match] = queue.headOption
  def removeHead(): Match = queue.removeHead()
  def foreach(use: Match => Unit): Unit = queue.foreach(use)
  def startRows: Iterator[Int] = queue.iterator.map(_.startRow)

  def insert(m: Match): Unit = queue.insert(queue.lastIndexWhere(_.startRow <= m.startRow) + 1, m)
  def append(m: Match): Unit = queue += m

  /** The place of this very match; below zero if it is no longer deferred. */
  def indexOf(m: Match): Int = queue.indexWhere(_ eq m)

  /** Removes the matches behind a place whose first row satisfies `excluded`, the last one first. */
  def removeBehind(place: Int, excluded: Int => Boolean)(removed: Match => Unit): Unit = {
    var i = queue.length - 1
    while (i > place) {
      if (excluded(queue(i).startRow)) removed(queue.remove(i))
      i -= 1
    }
  }
}
