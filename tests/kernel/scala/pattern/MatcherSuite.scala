package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.RowError

/** Patterns built by hand. A row of a test is a letter, the step whose condition it satisfies, and a time. */
object Patterns {
  val Accept: Int = -1

  def to(
      target: Int,
      contiguity: Int = Contiguity.Relaxed,
      disabledBy: Seq[Int] = Nil,
      disabledByNext: Seq[Int] = Nil,
      yieldsTo: Seq[Int] = Nil): Transition =
    Transition(target, contiguity, disabledBy.toArray, disabledByNext.toArray, yieldsTo.toArray)

  /** Each position is a step of its own; `negations` are conditions after those of the steps. */
  def automaton(steps: String, negations: String = "")(transitions: Seq[Transition]*): Automaton = {
    val names = (steps + negations).map(_.toString).toArray
    Automaton(names.take(steps.length), names, names, steps.indices.toArray, Array(to(0)),
      transitions.map(_.toArray).toArray)
  }

  /** `a`, then `b`. */
  def pair(contiguity: Int): Automaton = automaton("ab")(Seq(to(1, contiguity)), Seq(to(Accept)))

  def settings(
      automaton: Automaton,
      within: Option[Long] = None,
      skip: String = "none",
      skipStep: Option[Int] = None,
      timeouts: Boolean = false,
      limit: Int = 1000,
      dependent: Set[Int] = Set.empty): MatchSettings = {
    val ofRow = Automaton.bits(automaton.conditionNames.indices.filterNot(dependent))
    MatchSettings(automaton, ofRow, within, SkipStrategy(skip, skipStep), timeouts, limit, ordered = true)
  }

  val never: MatchPredicate = (_, _, _, _) => throw new AssertionError("the row alone decides all conditions")
}

/** Feeds rows to a matcher and collects its matches, as steps with the numbers of their rows. */
class MatcherRun(settings: MatchSettings, predicate: MatchPredicate = Patterns.never) {
  val matcher = new Matcher(settings, predicate)
  val found = new ArrayBuffer[String]
  private var rowNumber = 0

  private val emit: Match => Unit = m => {
    val (matched, automaton) = (matcher.matched, settings.automaton)
    val path = matched.path(m.lastNode).map { node =>
      automaton.stepName(matched.position(node)) + matched.rows(matched.row(node)).getInt(0)
    }
    found += path.mkString(" ") + (if (m.timedOut) s" timed out at ${m.endTime}" else "")
  }

  /** Rows such as `a`, or `a@5` with a time; without one, a row's time is its number, from 1. */
  def rows(text: String): this.type = { text.split(" ").foreach(row); this }

  private def row(text: String): Unit = {
    val Array(kind, time) = (text.split("@") :+ s"${rowNumber + 1}").take(2)
    val mask = Automaton.bits(settings.automaton.conditionNames.indices
      .filter(settings.automaton.conditionNames(_) == kind))
    add(InternalRow(rowNumber + 1), mask, time.toLong)
  }

  def add(row: InternalRow, mask: Long, time: Long): this.type = {
    rowNumber += 1
    matcher.advance(time)(emit)
    matcher.accept(row, mask, time, MatchedRows.rowId(rowNumber, 0))(emit)
    this
  }

  def expire(time: Long): this.type = { matcher.expire(time)(emit); this }
  def matches: Seq[String] = found.toSeq
}

class MatcherSuite extends munit.FunSuite {
  import Patterns._

  private def matches(s: MatchSettings, rows: String): Seq[String] = new MatcherRun(s).rows(rows).matches

  test("relaxed contiguity takes the next row that satisfies the condition") {
    assertEquals(matches(settings(pair(Contiguity.Relaxed)), "a x b b"), Seq("a1 b3"))
  }

  test("strict contiguity takes the very next row or none") {
    assertEquals(matches(settings(pair(Contiguity.Strict)), "a x b"), Nil)
    assertEquals(matches(settings(pair(Contiguity.Strict)), "a b b"), Seq("a1 b2"))
  }

  test("any contiguity takes every row that satisfies the condition") {
    assertEquals(matches(settings(pair(Contiguity.Any)), "a x b b"), Seq("a1 b3", "a1 b4"))
  }

  test("a negation between two steps forbids its row, a negation of the next row that one alone") {
    val between = automaton("ab", "n")(Seq(to(1, disabledBy = Seq(2))), Seq(to(Accept)))
    val next = automaton("ab", "n")(Seq(to(1, disabledByNext = Seq(2))), Seq(to(Accept)))
    assertEquals(matches(settings(between), "a x n b a b"), Seq("a5 b6"))
    assertEquals(matches(settings(next), "a n b"), Nil)
    assertEquals(matches(settings(next), "a x n b"), Seq("a1 b4"))
  }

  test("a greedy repetition takes precedence over the step behind it") {
    val greedy = automaton("ab")(Seq(to(0), to(1, yieldsTo = Seq(0))), Seq(to(Accept)))
    assertEquals(matches(settings(greedy, skip = "past_last"), "a a b"), Seq("a1 a2 b3"))
  }

  test("skip decides which other matches a match excludes") {
    def found(skip: String, step: Option[Int] = None) =
      matches(settings(pair(Contiguity.Relaxed), skip = skip, skipStep = step), "a a b")
    assertEquals(found("none"), Seq("a1 b3", "a2 b3"))
    assertEquals(found("next"), Seq("a1 b3", "a2 b3"))
    assertEquals(found("past_last"), Seq("a1 b3"))
    assertEquals(found("to_first", Some(1)), Seq("a1 b3"))
    assertEquals(found("to_last", Some(0)), Seq("a1 b3", "a2 b3"))
  }

  test("skip next excludes later matches with the same first row") {
    assertEquals(matches(settings(pair(Contiguity.Any), skip = "none"), "a b b"), Seq("a1 b2", "a1 b3"))
    assertEquals(matches(settings(pair(Contiguity.Any), skip = "next"), "a b b"), Seq("a1 b2"))
  }

  test("skip past_last lets a match begin behind the last one") {
    val s = settings(pair(Contiguity.Relaxed), skip = "past_last")
    assertEquals(matches(s, "a b a b"), Seq("a1 b2", "a3 b4"))
  }

  test("within is exclusive") {
    val s = settings(pair(Contiguity.Relaxed), within = Some(10))
    assertEquals(matches(s, "a@0 b@9"), Seq("a1 b2"))
    assertEquals(matches(s, "a@0 b@10"), Nil)
  }

  test("a partial match times out when its window is over, and not before") {
    val s = settings(pair(Contiguity.Relaxed), within = Some(10), timeouts = true)
    val run = new MatcherRun(s).rows("a@0 a@3")
    assertEquals(run.expire(9).matches, Nil)
    assertEquals(run.expire(10).matches, Seq("a1 timed out at 10"))
    assertEquals(run.expire(100).matches, Seq("a1 timed out at 10", "a2 timed out at 13"))
    assertEquals(run.matcher.length, 0)
  }

  test("without timeouts an expired partial match is forgotten") {
    val run = new MatcherRun(settings(pair(Contiguity.Relaxed), within = Some(10))).rows("a@0")
    assertEquals(run.expire(10).matches, Nil)
    assertEquals(run.matcher.length, 0)
  }

  test("a pattern that ends with a negation completes when its window expires") {
    val quiet = automaton("a", "n")(Seq(to(Accept, disabledBy = Seq(1))))
    val run = new MatcherRun(settings(quiet, within = Some(10))).rows("a@0 n@5 a@6")
    assertEquals(run.expire(15).matches, Nil)
    assertEquals(run.expire(16).matches, Seq("a3"))
  }

  test("beyond the limit the partial matches that started first are dropped and counted") {
    val run = new MatcherRun(settings(pair(Contiguity.Relaxed), limit = 2)).rows("a a a a")
    assertEquals(run.matcher.droppedPartials, 2L)
    assertEquals(run.rows("b").matches, Seq("a3 b5", "a4 b5"))
  }

  test("partial matches with one first row are dropped together") {
    val twice = automaton("abc")(
      Seq(to(1, Contiguity.Any), to(2, Contiguity.Any)), Seq(to(2)), Seq(to(Accept)))
    val run = new MatcherRun(settings(twice, limit = 2)).rows("a b b")
    assertEquals(run.matcher.droppedPartials, 3L)
    assertEquals(run.rows("c").matches, Nil)
  }

  test("matches that end on one row are ordered by their earliest start, then by their rows") {
    val optional = automaton("axb")(
      Seq(to(1, Contiguity.Any), to(2, Contiguity.Any)), Seq(to(2, Contiguity.Any)), Seq(to(Accept)))
    assertEquals(matches(settings(optional), "a x a b"), Seq("a1 x2 b4", "a1 b4", "a3 b4"))
  }

  // Rows are prices: `c` takes one while the mean of all that it took stays below 100, `d` any row.
  private val means = automaton("cd")(
    Seq(to(0, Contiguity.Strict), to(1, Contiguity.Strict, yieldsTo = Seq(0))), Seq(to(Accept)))
  private val meanBelow100: MatchPredicate = (condition, row, matched, lastNode) => {
    assertEquals(condition, 0)
    val nodes = if (lastNode < 0) Nil else matched.path(lastNode).toSeq
    val all = (nodes.map(n => matched.rows(matched.row(n))) :+ row).map(_.getInt(0))
    all.sum.toDouble / all.length < 100
  }
  private def prices(run: MatcherRun, all: Int*): MatcherRun = {
    all.foreach(price => run.add(InternalRow(price), mask = 2L, time = 1L))
    run
  }
  private def meansRun = new MatcherRun(settings(means, skip = "past_last", dependent = Set(0)), meanBelow100)

  test("a match is deferred while a partial match that started earlier is open, which excludes it") {
    val run = prices(meansRun, 10, 60, 200)
    // The mean of 60 and 200 is not below 100: that match is complete, but the one from 10 on is still open.
    assertEquals(run.matches, Nil)
    assertEquals(run.matcher.deferred.length, 1)
    assertEquals(prices(run, 90, 500).matches, Seq("c10 c60 c200 c90 d500"))
    assertEquals(run.matcher.length, 0)
  }

  test("a deferred match is emitted when the partial match that it waits for expires") {
    val s = settings(means, within = Some(10), skip = "past_last", dependent = Set(0))
    val run = prices(new MatcherRun(s, meanBelow100), 10, 60, 200)
    assertEquals(run.matcher.releaseTime, Some(11L))
    assertEquals(run.expire(11).matches, Seq("c60 d200"))
  }

  test("a row on which a condition throws has no effect") {
    var throws = false
    val predicate: MatchPredicate = (c, row, matched, node) => {
      if (throws && node >= 0) throw new RowError(new ArithmeticException("division by zero"))
      meanBelow100.holds(c, row, matched, node)
    }
    val run = new MatcherRun(settings(means, skip = "past_last", dependent = Set(0)), predicate)
    prices(run, 10)
    val before = (run.matcher.matched.rowCount, run.matcher.matched.nodeCount, run.matcher.length)
    throws = true
    intercept[RowError](prices(run, 20))
    assertEquals((run.matcher.matched.rowCount, run.matcher.matched.nodeCount, run.matcher.length), before)
    throws = false
    assertEquals(prices(run, 1000).matches, Seq("c10 d1000"))
  }

  test("a row that no partial match takes is not stored") {
    val run = new MatcherRun(settings(pair(Contiguity.Relaxed))).rows("a x x x")
    assertEquals(run.matcher.matched.rowCount, 1)
  }
}
