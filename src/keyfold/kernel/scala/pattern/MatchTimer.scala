package org.apache.spark.sql.keyfold.pattern

import org.apache.spark.sql.keyfold.state.TimerTicks

/** When the timer of a key must fire. */
case class MatchTimer(settings: PatternSettings) {
  import settings.matching

  /**
   * When something is due; else, if no timer is registered, when all partial matches have expired.
   * `shownUntil`: when the matches expire that are shown.
   */
  def nextTick(matcher: Matcher, shownUntil: Iterator[Long], registered: Long): Long = {
    val matches = if (matching.emitsOnExpiry) expiry(matcher, _.min) else matcher.releaseTime
    val due = (matches.iterator ++ shownUntil).minOption
    due.map(TimerTicks.firing)
      .getOrElse(if (registered != TimerTicks.Never) registered else cleanupTick(matcher))
  }

  /** Rounded up, so that keys share timers that only clean up. */
  private def cleanupTick(matcher: Matcher): Long = expiry(matcher, _.max).fold(TimerTicks.Never) { time =>
    val granularity = settings.cleanupGranularityMs
    -Math.floorDiv(-TimerTicks.firing(time), granularity) * granularity
  }

  /** When one of the partial matches expires, by their start times. */
  private def expiry(matcher: Matcher, which: Iterator[Long] => Long): Option[Long] =
    matching.within.filter(_ => !matcher.partials.isEmpty).map(_ + which(matcher.partials.startTimes))
}
