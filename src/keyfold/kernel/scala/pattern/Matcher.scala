package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.{ArrayBuffer, ArrayDeque}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.keyfold.expressions.RowError

/** What a match rules out: those that began before its end, that began with it, or before the first or last row of a step. */
case class Skip(kind: String, step: Int)

/** How a pattern is matched; `own` has a bit for each condition that a row alone decides; `within` in microseconds. `ordered`: rows come in the order of their times. */
case class MatchSettings(automaton: Automaton, own: Long, within: Option[Long], skip: Skip, timeouts: Boolean, limit: Int, ordered: Boolean) {
  /** Whether something is said when the time of a partial match is over. */
  val ends: Boolean = timeouts || automaton.waits.exists(_ != 0)
  /** By position: whether a row alone decides all that its ways look at. */
  val alone: Array[Boolean] = automaton.looks.map(_.forall(decides))
  /** Whether a match may rule out one that began with another row: then it matters which goes first. */
  val holds: Boolean = skip.kind != "none" && skip.kind != "next"
  def decides(condition: Int): Boolean = (own & (1L << condition)) != 0
}

/** A match, or a partial match that ran out of time: its last node, its first row, and when it ended. */
case class Match(node: Int, start: Int, ended: Long, timedOut: Boolean)

/** Conditions that a row alone does not decide; `node` is the last one of the partial match, below zero where there is none yet. */
trait MatchPredicate { def holds(condition: Int, row: InternalRow, taken: TakenRows, node: Int): Boolean }

/** Is told what happens, for `keyfold pattern explain`. */
trait MatchListener {
  /** A condition that the row alone does not decide is true for it, for some partial match. */
  def held(condition: Int): Unit
  def took(node: Int): Unit
  /** It is complete, and held back: `earlier` is a partial match that began before it, by its last node. */
  def waits(f: Match, earlier: Int): Unit
  def ended(node: Int, why: String): Unit
  def found(f: Match): Unit
}

/**
 * One key's partial matches. Rows come in order. Partial matches are kept in groups that differ in nothing that a row's own conditions (`mask`) can tell, so that a
 * row that means nothing to a group costs one look at it, however many are in it.
 */
class Matcher(m: MatchSettings, looking: MatchPredicate, telling: MatchListener = null) {
  import m.automaton

  val taken = new TakenRows
  var groups = new ArrayBuffer[PartialMatches]
  /**
   * Complete matches that are held back because a partial match that began earlier is still open, and wins if
   * it completes. In the order in which they began, then in which they were complete.
   */
  val held = new ArrayDeque[Match]
  var dropped = 0L
  private val found = new ArrayBuffer[Match]
  /** No partial match began before; and how many there were after the last sweep. */
  private var (oldest, swept) = (Long.MaxValue, 0)

  /** All that is kept of the key, which is what `limit` bounds. */
  def count: Int = groups.foldLeft(held.length)(_ + _.length)
  def begun(start: Int): Long = taken.times(start)
  private def over(start: Int, time: Long): Boolean = m.within.exists(w => time - begun(start) >= w)

  /** All that is kept, four numbers each. What is held has no position, and its end in place of its ways. */
  def each(use: (Long, Long, Int, Int) => Unit): Unit = {
    groups.foreach(g => (0 until g.length).foreach(k => use(g.at, g.alive, g.nodes(k), g.starts(k))))
    held.foreach(f => use(if (f.timedOut) Matcher.OutOfTime else Matcher.Complete, f.ended, f.node, f.start))
  }
  /** One of them, from state. */
  def load(at: Long, alive: Long, node: Int, start: Int): Unit =
    if (at < 0) held += Match(node, start, alive, timedOut = at == Matcher.OutOfTime)
    else { group(at.toInt, alive).add(node, start); oldest = math.min(oldest, begun(start)) }
  private def group(at: Int, alive: Long): PartialMatches = groups.find(g => g.at == at && g.alive == alive).getOrElse { val g = new PartialMatches(at, alive); groups += g; g }

  /** What a row does: `taken` ways, and those that are left. */
  private case class Outcome(taken: Long, left: Long)
  private def outcome(ways: Array[Transition], alive: Long, holds: Int => Boolean): Outcome = {
    val fresh = (alive & Automaton.Fresh) != 0
    var (took, left, i) = (0L, alive & ~Automaton.Fresh, 0)
    while (i < ways.length) {
      val (w, bit) = (ways(i), 1L << i)
      if ((left & bit) != 0) {
        if (w.ends.exists(holds) || (fresh && w.atOnce.exists(holds)) || w.after.exists(j => (took & (1L << j)) != 0)) left &= ~bit
        else if (!w.out && holds(automaton.positions(w.target))) { took |= bit; if (w.link != Link.Any) left &= ~bit }
        else if (w.link == Link.Strict && !w.out) left &= ~bit
      }
      i += 1
    }
    Outcome(took, left)
  }

  /** What a row does that is not within the time of a partial match, but comes before others that are: it is only the very next one. */
  private def passed(ways: Array[Transition], alive: Long): Outcome =
    Outcome(0L, ways.indices.foldLeft(alive & ~Automaton.Fresh)((left, i) => if (ways(i).link == Link.Strict && !ways(i).out) left & ~(1L << i) else left))

  /** Before a row of that time: what is over by then. A row that is not in order says nothing about those that come after it. */
  def turn(time: Long)(emit: Match => Unit): Unit =
    if (m.ordered && (m.ends || held.nonEmpty || telling != null)) expire(time)(emit)
    else if (m.ordered && m.within.isDefined && count > swept * 2 + 64) sweep(time)

  /** The next row; what it completes is handed to `emit`. A row that a condition throws on leaves no trace. */
  def row(r: InternalRow, mask: Long, time: Long, mark: Long)(emit: Match => Unit): Unit = {
    val (rowsBefore, nodesBefore) = (taken.rows.length, taken.row.length)
    found.clear()
    val i = taken.add(r, time, mark)
    // Put in place when all conditions have been looked at, since one may throw.
    val (fresh, same, moved) = (new ArrayBuffer[(Int, Int, Int)], new ArrayBuffer[PartialMatches](groups.length), new ArrayBuffer[PartialMatches])
    try {
      groups.foreach { g =>
        val after = carried(g, i, mask, fresh)
        if (after == null) same += g else moved ++= after
      }
      begin(i, mask, fresh)
    } catch { case e: RowError => taken.cut(rowsBefore, nodesBefore); throw e }
    val changed = same.length < groups.length
    groups = same
    moved.foreach(join)
    fresh.foreach { case (at, node, start) => group(at, automaton.full(at)).add(node, start); oldest = math.min(oldest, begun(start)) }
    if (found.nonEmpty || (changed && held.nonEmpty)) settle(found.toArray, time, emit)
    if (count > m.limit) drop(time, emit)
    if (taken.row.length == nodesBefore) taken.cut(rowsBefore, nodesBefore)
  }

  private def join(g: PartialMatches): Unit = {
    val same = groups.find(o => o.at == g.at && o.alive == g.alive)
    if (same.isEmpty) groups += g else { var i = 0; while (i < g.length) { same.get.add(g.nodes(i), g.starts(i)); i += 1 } }
  }

  /** What becomes of a group; null if nothing. Those that go on to another position are added to `fresh`. */
  private def carried(g: PartialMatches, i: Int, mask: Long, fresh: ArrayBuffer[(Int, Int, Int)]): ArrayBuffer[PartialMatches] = {
    val ways = automaton.ways(g.at)
    val alone = m.alone(g.at)
    val all = if (alone) outcome(ways, g.alive, c => (mask & (1L << c)) != 0) else null
    if (alone && all.taken == 0 && all.left == g.alive) return null
    val after = new ArrayBuffer[PartialMatches](1)
    var k = 0
    while (k < g.length) {
      val (node, start) = (g.nodes(k), g.starts(k))
      val late = over(start, taken.times(i))
      if (!late || !m.ordered) {
        val o = if (late) passed(ways, g.alive) else if (alone) all else outcome(ways, g.alive, holds(_, i, mask, node))
        take(ways, o.taken, i, node, start, fresh)
        if (o.left != 0) after.find(_.alive == o.left).getOrElse { val a = new PartialMatches(g.at, o.left); after += a; a }.add(node, start)
        if (telling != null && (g.alive & ~o.left & ~o.taken & ~Automaton.Fresh) != 0) tell(g, node, i, mask, o)
      }
      k += 1
    }
    after
  }

  private def holds(c: Int, i: Int, mask: Long, node: Int): Boolean =
    if (m.decides(c)) (mask & (1L << c)) != 0 else {
      val true_ = looking.holds(c, taken.rows(i), taken, node)
      if (true_ && telling != null) telling.held(c)
      true_
    }

  private def begin(i: Int, mask: Long, fresh: ArrayBuffer[(Int, Int, Int)]): Unit = {
    val o = outcome(automaton.begin, automaton.fullBegin, holds(_, i, mask, -1))
    take(automaton.begin, o.taken, i, -1, i, fresh)
  }

  private def take(ways: Array[Transition], bits: Long, i: Int, before: Int, start: Int, fresh: ArrayBuffer[(Int, Int, Int)]): Unit = if (bits != 0) {
    var w = 0
    while (w < ways.length) {
      // Two ways may lead to one place; it is come to once.
      if ((bits & (1L << w)) != 0 && !(0 until w).exists(o => (bits & (1L << o)) != 0 && ways(o).target == ways(w).target)) {
        val at = ways(w).target
        val node = taken.node(i, at, before)
        if (telling != null) telling.took(node)
        if (automaton.accepts(at)) found += Match(node, start, taken.times(i), timedOut = false)
        if (automaton.full(at) != 0) fresh += ((at, node, start))
      }
      w += 1
    }
  }

  private def tell(g: PartialMatches, node: Int, i: Int, mask: Long, o: Outcome): Unit = {
    val (ways, fresh) = (automaton.ways(g.at), (g.alive & Automaton.Fresh) != 0)
    ways.indices.filter(w => (g.alive & ~o.left & ~o.taken & (1L << w)) != 0).foreach { w =>
      val waited = if (ways(w).out) "the end" else automaton.name(ways(w).target)
      val end = (ways(w).ends ++ (if (fresh) ways(w).atOnce else Array.empty[Int])).find(holds(_, i, mask, node))
      val why = end.map(automaton.words(_)).getOrElse(if (ways(w).link == Link.Strict) "it must be the very next row" else "the step before it takes all it can")
      telling.ended(node, s"$waited can't come any more: $why")
    }
  }

  /** Gives what is complete, the earliest beginning first; what a partial match may precede is held back. */
  private def settle(ending: Array[Match], time: Long, emit: Match => Unit): Unit = {
    val sorted = if (ending.length < 2) ending else ending.sortWith { (a, b) =>
      if (a.start != b.start) a.start < b.start else taken.compare(a.node, b.node) < 0
    }
    sorted.foreach(f => held.insert(held.lastIndexWhere(_.start <= f.start) + 1, f))
    while (held.nonEmpty && earlier(held.head, time) < 0) give(held.removeHead(), emit)
    sorted.foreach(f => if (held.exists(_ eq f)) hold(f, time))
  }

  private def give(f: Match, emit: Match => Unit): Unit = {
    emit(f)
    if (telling != null) telling.found(f)
    val ruled = ruledOut(f)
    if (ruled != null) rule(ruled, -1)
  }

  /** The last node of an open partial match that began earlier; below zero if none is, or none matters. */
  private def earlier(f: Match, time: Long): Int = {
    var i = if (m.holds) 0 else groups.length
    while (i < groups.length) {
      val (g, n) = (groups(i), groups(i).length)
      var k = 0
      while (k < n) {
        if (g.starts(k) < f.start && !(m.ordered && over(g.starts(k), time))) return g.nodes(k)
        k += 1
      }
      i += 1
    }
    -1
  }

  /**
   * A match is held back. What began with the same row and is complete later comes after it, and is ruled out
   * with it; so if the match rules that out too, it will never be given.
   */
  private def hold(f: Match, time: Long): Unit = {
    if (telling != null) telling.waits(f, earlier(f, time))
    val ruled = ruledOut(f)
    if (ruled != null && ruled(f.start)) rule(_ == f.start, held.indexWhere(_ eq f))
  }

  /** What began with such a row ends: partial matches, and of what is held all behind a place. */
  private def rule(out: Int => Boolean, behind: Int): Unit = {
    val why = s"ruled out by a match: skip ${m.skip.kind}"
    (held.length - 1 until behind by -1).foreach { i =>
      if (out(held(i).start)) { val o = held.remove(i); if (telling != null) telling.ended(o.node, why) }
    }
    without(out, why)
  }

  /** Which others, by where they began, can't be given beside a match; null if all can. */
  // What ran out of time rules nothing out.
  private def ruledOut(f: Match): Int => Boolean = if (f.timedOut) null else m.skip.kind match {
    case "past_last" => val last = taken.row(f.node); _ <= last
    case "next" => _ == f.start
    case "none" => null
    case to =>
      val rows = taken.path(f.node).filter(n => automaton.positions(taken.position(n)) == m.skip.step).map(taken.row(_))
      if (rows.isEmpty) null else { val bound = if (to == "to_first") rows.head else rows.last; _ < bound }
  }

  /** Partial matches that began with such a row end. */
  private def without(gone: Int => Boolean, why: String): Unit = {
    if (telling != null) groups.foreach(g => (0 until g.length).foreach(k => if (gone(g.starts(k))) telling.ended(g.nodes(k), why)))
    only(!gone(_))
  }
  private def only(keep: Int => Boolean): Unit = groups = groups.map(_.begun(keep)).filter(_.length > 0)

  /** Time has passed: partial matches that can go on no more end, the earliest first. */
  def expire(time: Long)(emit: Match => Unit): Unit = if (m.within.exists(w => oldest != Long.MaxValue && time - oldest >= w)) {
    val done = new ArrayBuffer[Match]
    groups.foreach { g =>
      // What is a match already does not run out.
      val waits = (g.alive & automaton.waits(g.at)) != 0 && !automaton.accepts(g.at)
      val says = waits || (m.timeouts && !automaton.accepts(g.at))
      if (says || telling != null) (0 until g.length).foreach { k =>
        if (over(g.starts(k), time)) {
          if (telling != null && !waits) telling.ended(g.nodes(k), "within is over")
          if (says) done += Match(g.nodes(k), g.starts(k), begun(g.starts(k)) + m.within.get, timedOut = !waits)
        }
      }
    }
    sweep(time)
    settle(done.toArray, time, emit)
  }

  /** When the first of what is held is given, if no row comes before. */
  def release: Option[Long] = for { f <- held.headOption; w <- m.within } yield
    groups.iterator.flatMap(g => (0 until g.length).iterator.map(g.starts(_))).filter(_ < f.start)
      .map(begun).max + w

  private def sweep(time: Long): Unit = {
    only(!over(_, time))
    oldest = groups.foldLeft(Long.MaxValue)((o, g) => (0 until g.length).foldLeft(o)((x, k) => math.min(x, begun(g.starts(k)))))
    swept = count
  }

  /** More than there may be: partial matches that began first go. Matches that they held back are given. */
  private def drop(time: Long, emit: Match => Unit): Unit = {
    if (m.ordered) sweep(time)
    val starts = groups.toArray.flatMap(g => (0 until g.length).map(g.starts(_))) ++ held.map(_.start)
    if (starts.length > m.limit) {
      java.util.Arrays.sort(starts)
      // Those that began with one row go together, or there would be matches that a larger limit does not give.
      val first = starts(starts.length - m.limit)
      val bound = if (starts(starts.length - m.limit - 1) == first) first + 1 else first
      val before = count
      without(_ < bound, "more than limit")
      dropped += before - count
      settle(Array.empty, time, emit)
    }
  }
}

object Matcher {
  private val Complete = -1L
  private val OutOfTime = -2L
}
