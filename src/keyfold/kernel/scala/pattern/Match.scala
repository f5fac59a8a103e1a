package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.catalyst.InternalRow

/** A match, or a partial match that timed out: its last node, its first row, and when it ended. */
case class Match(lastNode: Int, startRow: Int, endTime: Long, timedOut: Boolean)

/** Evaluates the conditions that depend on earlier rows of the match. */
trait MatchPredicate {
  /** `lastNode` is the partial match's last node, below zero where the row would be its first. */
  def holds(condition: Int, row: InternalRow, matched: MatchedRows, lastNode: Int): Boolean
}

/** Is notified of every step of a matcher; for `keyfold pattern explain`. */
trait MatchListener {
  /** The row satisfies a condition that depends on earlier rows, for some partial match. */
  def onCondition(condition: Int): Unit
  /** A partial match has matched the row; `node` is its new last node. */
  def onRowMatched(node: Int): Unit
  /** A complete match is deferred; `earlier` is the last node of a partial match that started before it. */
  def onDeferred(m: Match, earlier: Int): Unit
  /** A partial or deferred match is discarded. */
  def onDiscarded(lastNode: Int, reason: String): Unit
  def onMatch(m: Match): Unit
}
