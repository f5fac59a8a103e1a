package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

/**
 * The partial matches that a row brings to another position, and the matches that it completes. They are
 * collected first and applied when all conditions have been evaluated for the row, since one may throw.
 */
private[pattern] class RowAdvances(automaton: Automaton, matched: MatchedRows, listener: MatchListener) {
  import RowAdvances.Advance

  private val advances = new ArrayBuffer[Advance]
  val completed = new ArrayBuffer[Match]

  def clear(): Unit = {
    advances.clear()
    completed.clear()
  }

  /**
   * Adds a node for each position that the taken transitions lead to; `previous` is the last node of the
   * partial match, or -1.
   */
  def take(transitions: Array[Transition], taken: Long, row: Int, previous: Int, startRow: Int): Unit =
    if (taken != 0) {
      var i = 0
      while (i < transitions.length) {
        val position = transitions(i).target
        if ((taken & (1L << i)) != 0 && !reachedBefore(transitions, taken, i, position)) {
          val node = matched.addNode(row, position, previous)
          if (listener != null) listener.onRowMatched(node)
          if (automaton.accepts(position))
            completed += Match(node, startRow, matched.times(row), timedOut = false)
          if (automaton.enabledOnEntry(position) != 0) advances += Advance(position, node, startRow)
        }
        i += 1
      }
    }

  /** Whether one of the taken transitions before the i-th leads to the same position. */
  private def reachedBefore(transitions: Array[Transition], taken: Long, i: Int, position: Int): Boolean = {
    var j = 0
    while (j < i) {
      if ((taken & (1L << j)) != 0 && transitions(j).target == position) return true
      j += 1
    }
    false
  }

  def addTo(partials: PartialMatches): Unit =
    advances.foreach(a => partials.add(a.position, automaton.enabledOnEntry(a.position), a.node, a.startRow))
}

private object RowAdvances {
  /** A partial match at its new position. */
  private case class Advance(position: Int, node: Int, startRow: Int)
}
