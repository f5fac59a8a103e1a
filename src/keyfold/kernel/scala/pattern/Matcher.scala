package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.RowError

/** Matches the rows of one key, in order, and hands complete matches to the `emit` of each call. */
class Matcher(settings: MatchSettings, predicate: MatchPredicate, listener: MatchListener = null) {
  import settings.automaton

  val matched = new MatchedRows
  val partials = new PartialMatches(matched, settings.within)
  private val resolver = new MatchResolver(settings, matched, partials, listener)
  /** How many partial matches were dropped because of `limit`. */
  var droppedPartials = 0L
  private val advances = new RowAdvances(automaton, matched, listener)
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
    advances.clear()
    val added = matched.addRow(row, time, rowId)
    val unchanged = new ArrayBuffer[PartialMatchGroup](partials.groups.length)
    val changed = new ArrayBuffer[PartialMatchGroup]
    try {
      partials.groups.foreach { group =>
        val after = applyRow(group, added, mask)
        if (after == null) unchanged += group else changed ++= after
      }
      start(added, mask)
    } catch { case e: RowError => matched.truncate(rowCount, nodeCount); throw e }
    val anyChanged = unchanged.length < partials.groups.length
    partials.replace(unchanged, changed)
    advances.addTo(partials)
    if (advances.completed.nonEmpty || (anyChanged && deferred.nonEmpty))
      resolver.resolve(advances.completed.toArray, time, emit)
    if (length > settings.limit) enforceLimit(time, emit)
    if (matched.nodeCount == nodeCount) matched.truncate(rowCount, nodeCount)
  }

  /**
   * What a row leaves of a group at its position; null if the row does not change it. Partial matches that
   * reach another position are added to `advances`.
   */
  private def applyRow(
      group: PartialMatchGroup, row: Int, mask: Long): ArrayBuffer[PartialMatchGroup] = {
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
        advances.take(transitions, outcome.taken, row, node, startRow)
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

  private def start(row: Int, mask: Long): Unit = {
    val (initial, enabled) = (automaton.initial, automaton.enabledInitially)
    val outcome = TransitionOutcome.of(automaton, initial, enabled, holds(_, row, mask, -1))
    advances.take(initial, outcome.taken, row, -1, row)
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
      droppedPartials += before - length
      resolver.resolve(Array.empty, time, emit)
    }
  }
}
