package org.apache.spark.sql.keyfold.pattern

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, UnsafeProjection}
import org.apache.spark.sql.keyfold.rows.side_output.SideOutput
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows as they are shuffled, buffered and stored for a pattern. */
class PatternLayoutSuite extends munit.FunSuite {
  import Patterns._

  private val row = new StructType().add("n", IntegerType)
  private val key = AttributeReference("card", StringType)()
  private val layout = PatternLayout(AttributeReference("bucket", IntegerType)(), Seq(key), row)
  private val buffered = BufferedRowLayout.of(Seq(key), row)
  private def text(s: String): UTF8String = UTF8String.fromString(s)

  private def shuffled(
      card: String,
      n: Int,
      mask: Long,
      time: Any,
      arrival: Long,
      side: InternalRow = null): InternalRow = {
    val schema = StructType(layout.input.map(a => StructField(a.name, a.dataType)))
    UnsafeProjection.create(schema)(
      InternalRow(7, text(card), InternalRow(n), mask, InternalRow(time, arrival), side)).copy()
  }
  private def toBuffered(r: InternalRow): InternalRow = buffered.projection(layout)(r).copy()

  test("a shuffled row has its columns by name") {
    assertEquals(layout.input.map(_.name).take(4), Seq("bucket", "card", "row", "mask"))
    assertEquals(layout.key, Seq(key))
    assertEquals((layout.bucket.name, layout.shuffled.prefix), ("bucket", 2))
    assertEquals(layout.sideOutput(shuffled("x", 1, 0, 5L, 1)), null)
    val side = layout.sideOutput(shuffled("x", 1, 0, 5L, 1, SideOutput.rejected("why", "raw", None)))
    assertEquals(SideOutput.raw(side), "raw")
  }

  test("a buffered row keeps key, columns, conditions and time; without an event time it is 0") {
    val r = toBuffered(shuffled("x", 3, 5L, 1234567L, 9))
    assertEquals(buffered.key(r).getString(0), "x")
    assertEquals(buffered.row(r).getInt(0), 3)
    assertEquals((buffered.mask(r), buffered.time(r)), (5L, 1234567L))
    assertEquals(buffered.time(toBuffered(shuffled("x", 3, 5L, null, 9))), 0L)
    assertEquals(buffered.schema.fieldIndex("time"), BufferedRowLayout.Time)
  }

  test("buffered rows are ordered by time and then by arrival, or by arrival alone") {
    val rows = Seq((1, 20L, 1L), (2, 10L, 3L), (3, 10L, 2L)).map { case (n, time, arrival) =>
      toBuffered(shuffled("x", n, 0, time, arrival))
    }.toArray
    def sorted(by: java.util.Comparator[InternalRow]) = {
      val copy = rows.clone()
      java.util.Arrays.sort(copy, by)
      copy.toSeq.map(buffered.row(_).getInt(0))
    }
    assertEquals(sorted(BufferedRowLayout.byTimeAndArrival), Seq(3, 2, 1))
    assertEquals(sorted(BufferedRowLayout.byArrival), Seq(1, 3, 2))
  }

  private val shown = ShownMatchLayout(new StructType().add("op", StringType).add("n", IntegerType))
  private val state = PatternStateLayout(row, Some(shown))
  /** Through the bytes of a row, as the state store keeps it. */
  private def stored(layout: PatternStateLayout, run: MatcherRun, matches: InternalRow*): InternalRow =
    UnsafeProjection.create(layout.schema)(layout.encode(77L, run.matcher, ArrayBuffer(matches: _*))).copy()
  private def restored(settings: MatchSettings, from: InternalRow): MatcherRun = {
    val run = new MatcherRun(settings)
    state.restore(from, run.matcher)
    run
  }

  test("a matcher that is stored and restored after each row finds what one that never stops finds") {
    val (rows, limit) = ("a@1 x@2 a@3 b@4 a@5 b@6 x@7 a@8 b@30", 100)
    for (contiguity <- Seq(Contiguity.Relaxed, Contiguity.Strict, Contiguity.Any);
         skip <- Seq("none", "next", "past_last")) {
      val s = settings(pair(contiguity), within = Some(20), skip = skip, timeouts = true, limit = limit)
      val through = new MatcherRun(s).rows(rows)
      var found = Seq.empty[String]
      var state: InternalRow = null
      rows.split(" ").zipWithIndex.foreach { case (one, i) =>
        val run = if (state == null) new MatcherRun(s) else restored(s, state)
        val Array(kind, time) = one.split("@")
        run.add(InternalRow(i + 1), Automaton.bits(Seq("ab".indexOf(kind)).filter(_ >= 0)), time.toLong)
        found ++= run.matches
        state = stored(this.state, run)
      }
      assertEquals(found, through.matches, s"$contiguity $skip")
      assert(found.nonEmpty)
    }
  }

  test("only rows that a partial match refers to are stored, and ids stay the same") {
    val s = settings(pair(Contiguity.Any), within = Some(10))
    val run = new MatcherRun(s).rows("a@1 a@2 b@3 a@11").expire(11)
    val before = run.matcher.partials.groups.head
    val back = restored(s, stored(state, run))
    assertEquals(back.matcher.matched.rows.map(_.getInt(0)).toSeq, Seq(2, 4))
    assertEquals(back.matcher.matched.times.toSeq, Seq(2L, 11L))
    val after = back.matcher.partials.groups.head
    assertEquals((before.length, after.length), (2, 2))
    (0 until after.length).foreach { i =>
      assertEquals(back.matcher.matched.id(after.lastNodes(i)),
        run.matcher.matched.id(before.lastNodes(i)))
    }
  }

  test("deferred matches are stored, complete ones and those that timed out") {
    val run = new MatcherRun(settings(pair(Contiguity.Relaxed), within = Some(10)))
    val row = run.matcher.matched.addRow(InternalRow(1), 5L, 1L)
    val node = run.matcher.matched.addNode(row, 0, -1)
    val deferred = Seq(Match(node, row, 6L, timedOut = false), Match(node, row, 15L, timedOut = true))
    deferred.foreach(run.matcher.deferred.insert)
    val back = Seq.newBuilder[Match]
    restored(settings(pair(Contiguity.Relaxed)), stored(state, run)).matcher.deferred.foreach(m => back += m)
    assertEquals(back.result(), deferred)
  }

  test("the timer and the matches that are shown come back") {
    val run = new MatcherRun(settings(pair(Contiguity.Relaxed))).rows("a")
    val kept = shown(text("id1"), 99L, InternalRow(text("upsert"), 4))
    val from = stored(state, run, kept, shown(text("id2"), 100L, null))
    assertEquals(state.timer(from), 77L)
    val Seq(first, second) = state.shownMatches(from).toSeq
    assertEquals((shown.id(first).toString, shown.expiresAt(first)), ("id1", 99L))
    assertEquals(shown.row(first).getInt(1), 4)
    assertEquals((shown.id(second).toString, shown.row(second)), ("id2", null))
    val without = PatternStateLayout(row, None)
    assert(without.shownMatches(stored(without, run)).isEmpty)
  }
}
