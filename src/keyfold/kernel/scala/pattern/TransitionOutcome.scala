package org.apache.spark.sql.keyfold.pattern

/** What a row does to a partial match, as bits: the transitions that take it, and those enabled after it. */
case class TransitionOutcome(taken: Long, enabled: Long)

object TransitionOutcome {
  /** Transitions with precedence come first, so that those that yield to them know whether they took it. */
  def of(
      automaton: Automaton,
      transitions: Array[Transition],
      enabled: Long,
      holds: Int => Boolean): TransitionOutcome = {
    val adjacent = (enabled & Automaton.Adjacent) != 0
    var taken = 0L
    var left = enabled & ~Automaton.Adjacent
    var i = 0
    while (i < transitions.length) {
      val (t, bit) = (transitions(i), 1L << i)
      if ((left & bit) != 0) {
        if (disabled(t, adjacent, taken, holds)) left &= ~bit
        else if (!t.accepting && holds(automaton.positions(t.target))) {
          taken |= bit
          if (t.contiguity != Contiguity.Any) left &= ~bit
        } else if (mustTakeNext(t)) left &= ~bit
      }
      i += 1
    }
    TransitionOutcome(taken, left)
  }

  private def disabled(t: Transition, adjacent: Boolean, taken: Long, holds: Int => Boolean): Boolean =
    t.disabledBy.exists(holds) || (adjacent && t.disabledByNext.exists(holds)) ||
      t.yieldsTo.exists(j => (taken & (1L << j)) != 0)

  /**
   * Of a row after the partial match's `within`, where a row within it may still follow: no transition takes
   * the row, and it disables the strict ones by coming between.
   */
  def ofExpired(transitions: Array[Transition], enabled: Long): TransitionOutcome = {
    var left = enabled & ~Automaton.Adjacent
    var i = 0
    while (i < transitions.length) { if (mustTakeNext(transitions(i))) left &= ~(1L << i); i += 1 }
    TransitionOutcome(0L, left)
  }

  private def mustTakeNext(t: Transition): Boolean = t.contiguity == Contiguity.Strict && !t.accepting
}
