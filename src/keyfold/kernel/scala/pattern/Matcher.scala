package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.RowError

/** Matches the rows of one key, in order, and hands complete matches to the `emit` of each call. */
class Matcher(settings: MatchSettings, predicate: MatchPredicate, listener: MatchListener = null) {
  import Matcher.Advance
  import settings.automaton

  val matched = new MatchedRows
  val partials = new PartialMatches(matched, settings.within)
  private val resolver = new MatchResolver(settings, matched, partials, listener)
  /** How many partial matches were dropped because of `limit`. */
  var dropped = 0L
  private val completed = new ArrayBuffer[Match]
  private var lengthAfterSweep = 0

  def deferred: DeferredMatches = resolver.deferred
  /** When the first deferred match is due, if no row arrives before. */
  def releaseTime: Option[Long] = resolver.releaseTime
  /** All that is stored of the key, which is what `limit` bounds. */
  def length: Int = partials.length + deferred.length

  /**
   * Expires what is over before a row of this time. A row that arrives out of order says nothing about the
   * times of those that follow it.
   */
  def advance(time: Long)(emit: Match => Unit): Unit = if (settings.ordered) {
    if (settings.emitsOnExpiry || deferred.nonEmpty || listener != null) expire(time)(emit)
    else if (settings.within.isDefined && length > lengthAfterSweep * 2 + 64) sweep(time)
  }

  /**
   * Matches the next row. Bit i of `mask` says whether it satisfies the i-th condition, where the row alone
   * decides that. If a condition throws, the row has no effect.
   */
  def accept(row: InternalRow, mask: Long, time: Long, rowId: Long)(emit: Match => Unit): Unit = {
    val (rowCount, nodeCount) = (matched.rowCount, matched.nodeCount)
    completed.clear()
    val added = matched.addRow(row, time, rowId)
    // Applied only when all conditions have been evaluated, since one may throw.
    val advances = new ArrayBuffer[Advance]
    val unchanged = new ArrayBuffer[PartialMatchGroup](partials.groups.length)
    val changed = new ArrayBuffer[PartialMatchGroup]
    try {
      partials.groups.foreach { group =>
        val after = applyRow(group, added, mask, advances)
        if (after == null) unchanged += group else changed ++= after
      }
      start(added, mask, advances)
    } catch { case e: RowError => matched.truncate(rowCount, nodeCount); throw e }
    val anyChanged = unchanged.length < partials.groups.length
    partials.replace(unchanged, changed)
    advances.foreach(a => partials.add(a.position, automaton.enabledOnEntry(a.position), a.node, a.startRow))
    if (completed.nonEmpty || (anyChanged && deferred.nonEmpty))
      resolver.resolve(completed.toArray, time, emit)
    if (length > settings.limit) enforceLimit(time, emit)
    if (matched.nodeCount == nodeCount) matched.truncate(rowCount, nodeCount)
  }

  /**
   * What a row leaves of a group at its position; null if the row does not change it. Partial matches that
   * reach another position are added to `advances`.
   */
  private def applyRow(
      group: PartialMatchGroup,
      row: Int,
      mask: Long,
      advances: ArrayBuffer[Advance]): ArrayBuffer[PartialMatchGroup] = {
    val transitions = automaton.transitions(group.position)
    val shared = if (settings.decidedByRow(group.position))
      TransitionOutcome.of(automaton, transitions, group.enabled, c => (mask & (1L << c)) != 0) else null
    if (shared != null && shared.taken == 0 && shared.enabled == group.enabled) return null
    val time = matched.times(row)
    val after = new ArrayBuffer[PartialMatchGroup](1)
    var k = 0
    while (k < group.length) {
      val (node, startRow) = (group.lastNodes(k), group.startRows(k))
      val expired = partials.expired(startRow, time)
      if (!expired || !settings.ordered) {
        val outcome = if (expired) TransitionOutcome.ofExpired(transitions, group.enabled)
          else if (shared != null) shared
          else TransitionOutcome.of(automaton, transitions, group.enabled, holds(_, row, mask, node))
        take(transitions, outcome.taken, row, node, startRow, advances)
        if (outcome.enabled != 0) groupOf(after, group.position, outcome.enabled).add(node, startRow)
        if (listener != null) reportDisabled(group, node, row, mask, outcome)
      }
      k += 1
    }
    after
  }

  private def groupOf(
      groups: ArrayBuffer[PartialMatchGroup],
      position: Int,
      enabled: Long): PartialMatchGroup =
    groups.find(_.enabled == enabled).getOrElse {
      val created = new PartialMatchGroup(position, enabled)
      groups += created
      created
    }

  private def holds(condition: Int, row: Int, mask: Long, node: Int): Boolean =
    if (settings.isRowCondition(condition)) (mask & (1L << condition)) != 0
    else {
      val satisfied = predicate.holds(condition, matched.rows(row), matched, node)
      if (satisfied && listener != null) listener.onCondition(condition)
      satisfied
    }

  private def start(row: Int, mask: Long, advances: ArrayBuffer[Advance]): Unit = {
    val (initial, enabled) = (automaton.initial, automaton.enabledInitially)
    val outcome = TransitionOutcome.of(automaton, initial, enabled, holds(_, row, mask, -1))
    take(initial, outcome.taken, row, -1, row, advances)
  }

  /** Adds a node for each position that the taken transitions lead to. */
  private def take(
      transitions: Array[Transition],
      taken: Long,
      row: Int,
      previous: Int,
      startRow: Int,
      advances: ArrayBuffer[Advance]): Unit = if (taken != 0) {
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

  private def reportDisabled(
      group: PartialMatchGroup,
      node: Int,
      row: Int,
      mask: Long,
      outcome: TransitionOutcome): Unit = {
    val transitions = automaton.transitions(group.position)
    val adjacent = (group.enabled & Automaton.Adjacent) != 0
    val disabled = group.enabled & ~outcome.enabled & ~outcome.taken
    transitions.indices.filter(i => (disabled & (1L << i)) != 0).foreach { i =>
      val t = transitions(i)
      val by = (t.disabledBy ++ (if (adjacent) t.disabledByNext else Array.empty[Int]))
        .find(holds(_, row, mask, node))
      val reason = by.map(automaton.conditionPhrases(_)).getOrElse(
        if (t.contiguity == Contiguity.Strict) "it must be the very next row"
        else "the step before it takes all it can")
      listener.onDiscarded(node, s"${automaton.targetName(t)} can't come any more: $reason")
    }
  }

  /** Ends the partial matches whose `within` is over at this time, the earliest start first. */
  def expire(time: Long)(emit: Match => Unit): Unit = if (partials.mayHaveExpired(time)) {
    val ended = new ArrayBuffer[Match]
    partials.groups.foreach { group =>
      // A partial match that is also a complete match has been emitted, and does not time out.
      val open = !automaton.accepts(group.position)
      val completes = open && (group.enabled & automaton.trailingNegations(group.position)) != 0
      val emits = completes || (open && settings.timeouts)
      if (emits || listener != null) (0 until group.length).foreach { k =>
        val (node, startRow) = (group.lastNodes(k), group.startRows(k))
        if (partials.expired(startRow, time)) {
          if (listener != null && !completes) listener.onDiscarded(node, "within is over")
          val end = partials.startTime(startRow) + settings.within.get
          if (emits) ended += Match(node, startRow, end, timedOut = !completes)
        }
      }
    }
    sweep(time)
    resolver.resolve(ended.toArray, time, emit)
  }

  private def sweep(time: Long): Unit = {
    partials.removeExpired(time)
    lengthAfterSweep = length
  }

  /** Drops the partial matches that started first. Matches that they deferred are emitted. */
  private def enforceLimit(time: Long, emit: Match => Unit): Unit = {
    if (settings.ordered) sweep(time)
    val startRows = (partials.startRows ++ deferred.startRows).toArray
    val excess = startRows.length - settings.limit
    if (excess > 0) {
      java.util.Arrays.sort(startRows)
      // Those with one first row are dropped together: otherwise a smaller limit could add matches.
      val first = startRows(excess)
      val bound = if (startRows(excess - 1) == first) first + 1 else first
      val before = length
      resolver.discardPartials(_ < bound, "more than limit")
      dropped += before - length
      resolver.resolve(Array.empty, time, emit)
    }
  }
}

object Matcher {
  /** A partial match that the row at hand has brought to a position. */
  private case class Advance(position: Int, node: Int, startRow: Int)
}
