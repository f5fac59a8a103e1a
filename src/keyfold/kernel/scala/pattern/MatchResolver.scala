package org.apache.spark.sql.keyfold.pattern

/**
 * Decides which complete matches of a key are emitted, and when. Matches are emitted in the order of their
 * first rows; each excludes others as the skip strategy says. A match that an open partial match may still
 * exclude is deferred.
 */
class MatchResolver(
    settings: MatchSettings,
    matched: MatchedRows,
    partials: PartialMatches,
    listener: MatchListener) {
  import settings.skip

  val deferred = new DeferredMatches

  /** Emits or defers the matches that have ended by now, and those deferred matches that are due. */
  def resolve(ended: Array[Match], time: Long, emit: Match => Unit): Unit = {
    val sorted = if (ended.length < 2) ended else ended.sortWith { (a, b) =>
      if (a.startRow != b.startRow) a.startRow < b.startRow else matched.compare(a.lastNode, b.lastNode) < 0
    }
    sorted.foreach(deferred.insert)
    while (deferred.nonEmpty && earlierPartial(deferred.head, time) < 0)
      emitMatch(deferred.removeHead(), emit)
    sorted.foreach(m => if (deferred.indexOf(m) >= 0) defer(m, time))
  }

  /** The last node of a partial match that may still exclude a match; -1 if there is none. */
  private def earlierPartial(m: Match, time: Long): Int =
    if (skip.defersMatches) partials.startedBefore(m.startRow, settings.ordered, time) else -1

  private def emitMatch(m: Match, emit: Match => Unit): Unit = {
    emit(m)
    if (listener != null) listener.onMatch(m)
    val excluded = skip.excludedBy(m, matched, settings.automaton)
    if (excluded != null) exclude(excluded, behind = -1)
  }

  /**
   * A deferred match goes before those that start with the same row and complete later. Whatever excludes it
   * excludes them; so if it excludes them too, they can never be emitted and need not be stored.
   */
  private def defer(m: Match, time: Long): Unit = {
    if (listener != null) listener.onDeferred(m, earlierPartial(m, time))
    val excluded = skip.excludedBy(m, matched, settings.automaton)
    if (excluded != null && excluded(m.startRow)) exclude(_ == m.startRow, behind = deferred.indexOf(m))
  }

  /** Discards partial matches, and deferred matches behind a place, by their first row. */
  private def exclude(excluded: Int => Boolean, behind: Int): Unit = {
    val reason = s"ruled out by a match: skip ${skip.kind}"
    deferred.removeBehind(behind, excluded) { m =>
      if (listener != null) listener.onDiscarded(m.lastNode, reason)
    }
    discardPartials(excluded, reason)
  }

  def discardPartials(excluded: Int => Boolean, reason: String): Unit = {
    if (listener != null) partials.foreach { (group, k) =>
      if (excluded(group.startRows(k))) listener.onDiscarded(group.lastNodes(k), reason)
    }
    partials.retain(!excluded(_))
  }

  /** When the first deferred match is due, if no row arrives before. */
  def releaseTime: Option[Long] = for (m <- deferred.headOption; within <- settings.within) yield
    partials.startRows.filter(_ < m.startRow).map(partials.startTime).max + within
}
