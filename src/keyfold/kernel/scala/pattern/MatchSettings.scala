package org.apache.spark.sql.keyfold.pattern

/**
 * After-match skip strategy: which other matches, by their first row, a match excludes. `past_last` excludes
 * those that start up to its last row, `next` those with the same first row, `to_first` and `to_last` those
 * that start before its first or last row of `step`, and `none` excludes nothing.
 */
case class SkipStrategy(kind: String, step: Option[Int]) {
  /**
   * Whether a match may exclude one with another first row. Then the order of matches matters, and a complete
   * match is deferred while a partial match that started earlier is open.
   */
  val defersMatches: Boolean = kind != "none" && kind != "next"

  /** The first rows of the matches that a match excludes; null if it excludes none, as one that timed out. */
  def excludedBy(m: Match, matched: MatchedRows, automaton: Automaton): Int => Boolean =
    if (m.timedOut) null else kind match {
      case "past_last" => val last = matched.row(m.lastNode); _ <= last
      case "next" => _ == m.startRow
      case "none" => null
      case _ =>
        val ofStep = (node: Int) => step.contains(automaton.positions(matched.position(node)))
        val nodes = matched.path(m.lastNode).filter(ofStep)
        if (nodes.isEmpty) null
        else { val bound = matched.row(if (kind == "to_first") nodes.head else nodes.last); _ < bound }
    }
}

/**
 * How a pattern is matched. `rowConditions` has a bit for each condition that the row alone decides; `within`
 * is in microseconds; `ordered` means that rows arrive in the order of their times.
 */
case class MatchSettings(
    automaton: Automaton,
    rowConditions: Long,
    within: Option[Long],
    skip: SkipStrategy,
    timeouts: Boolean,
    limit: Int,
    ordered: Boolean) {
  /** Whether a partial match may emit something when `within` expires. */
  val emitsOnExpiry: Boolean = timeouts || automaton.trailingNegations.exists(_ != 0)
  /** By position: whether all conditions that its transitions evaluate depend on the row alone. */
  val decidedByRow: Array[Boolean] = automaton.conditionsRead.map(_.forall(isRowCondition))
  def isRowCondition(condition: Int): Boolean = (rowConditions & (1L << condition)) != 0
}
