package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.util.CollectionAccumulator

/**
 * A table's pattern: how rows are matched, the conditions that depend on the match, whether rows are buffered
 * and matched in the order of event time, and for how long a match is shown, in microseconds.
 */
case class PatternSettings(
    matching: MatchSettings,
    conditions: MatchConditions,
    eventOrder: Boolean,
    ttl: Option[Long],
    trace: Option[CollectionAccumulator[String]]) {
  /** Timers that only clean up are rounded up to this many milliseconds, so that keys share them. */
  val cleanupGranularityMs: Long = matching.within.fold(1L)(within => math.max(1L, within / 16000))
}
